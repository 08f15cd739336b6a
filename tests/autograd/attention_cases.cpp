#include <array>
#include <memory>

#include "autograd/op_cases.h"

namespace headcount {

namespace {

using Inputs = std::span<const Var>;
using Mask = std::vector<std::uint8_t>;

// Attention with sinks, which are one more input.
void add_sinks(CaseList& cases, const std::string& name, const std::vector<Shape>& shapes,
               const AttentionOptions& options, const Mask& mask = {}) {
  std::vector<Shape> inputs = shapes;
  inputs.push_back({shapes.front()[2]});
  cases.add("sinks, " + name, inputs, [=](Tape& tape, Inputs x) {
    tape.set_training(true);
    tape.set_random(17, 4);
    AttentionOptions with_sinks = options;
    with_sinks.sinks = x[3];
    with_sinks.key_mask = mask;
    return attention(x[0], x[1], x[2], with_sinks);
  });
}

struct AttentionSizes {
  Index queries, keys, query_heads, kv_heads;
  Index batch = 2;
  Index qk_width = 3, v_width = 2;
};

void add_attention(CaseList& cases, const std::string& name, const AttentionSizes& s,
                   const AttentionOptions& options, const Mask& mask = {}) {
  const auto call = [=](Tape& tape, Inputs x) {
    tape.set_training(true);
    tape.set_random(17, 4);
    AttentionOptions with_mask = options;
    with_mask.key_mask = mask;
    return attention(x[0], x[1], x[2], with_mask);
  };
  cases.add(name,
            {{s.batch, s.queries, s.query_heads, s.qk_width},
             {s.batch, s.keys, s.kv_heads, s.qk_width},
             {s.batch, s.keys, s.kv_heads, s.v_width}},
            call);
}

// A mask [2, keys] with every third key hidden.
Mask every_third_hidden(Index keys) {
  Mask mask;
  for (Index i = 0; i < 2 * keys; ++i) mask.push_back(i % 3 != 1);
  return mask;
}

// The first sequence sees everything, the second nothing.
Mask second_sequence_hidden(Index keys) {
  Mask mask(static_cast<std::size_t>(keys), 1);
  mask.resize(static_cast<std::size_t>(2 * keys), 0);
  return mask;
}

// The first `hidden` keys of both sequences are padding: with causal attention, as many queries
// see nothing.
Mask padded_left(Index keys, Index hidden) {
  Mask mask;
  for (Index i = 0; i < 2 * keys; ++i) mask.push_back(i % keys >= hidden);
  return mask;
}

void add_heads_and_lengths(CaseList& cases, Index length) {
  const Real scale{0.6};
  add_attention(cases, "causal, as many KV heads", {length, length, 3, 3}, {.scale = scale});
  add_attention(cases, "causal, one KV head", {length, length, 3, 1}, {.scale = scale});
  add_attention(cases, "causal, grouped", {length, length, 4, 2}, {.scale = scale});
  add_attention(cases, "causal, more keys than queries", {length, length + 2, 4, 2},
                {.scale = scale});
  add_attention(cases, "causal, one query", {1, length, 4, 2}, {.scale = scale});
  add_attention(cases, "all keys", {length, length, 2, 2}, {.scale = scale, .causal = false});
  add_attention(cases, "all keys, grouped, more keys than queries", {length, length + 2, 4, 2},
                {.scale = scale, .causal = false});
  add_attention(cases, "all keys, fewer keys than queries", {length + 2, length, 2, 1},
                {.scale = scale, .causal = false});
  add_attention(cases, "negative scale", {length, length, 2, 1}, {.scale = -scale});
  cases.add("one value for q, k and v", {{2, length, 3, 4}},
            [=](Tape&, Inputs x) { return attention(x[0], x[0], x[0], {.scale = scale}); });
  cases.add("one value for k and v, grouped", {{2, length, 4, 3}, {2, length, 2, 3}},
            [=](Tape&, Inputs x) { return attention(x[0], x[1], x[1], {.scale = scale}); });
}

// Keys in parts and rows as columns of wider ones, each with heads of its own: as MLA, GTA and tied
// keys and values read them.
void add_views(CaseList& cases, Index length) {
  const AttentionOptions causal = {.scale = Real{0.7}};
  cases.add("keys in two parts, the second shared by all heads",
            {{2, length, 4, 5}, {2, length, 4, 3}, {2, length, 1, 2}, {2, length, 4, 3}},
            [=](Tape&, Inputs x) {
              return attention(x[0], std::array{Rows(x[1]), Rows(x[2])}, x[3], causal);
            });
  cases.add("keys and values as columns of one value, and a shared part",
            {{2, length, 4, 5}, {2, length, 4, 7}, {2, length, 1, 2}}, [=](Tape&, Inputs x) {
              const Rows both(x[1]);
              return attention(x[0], std::array{both.columns(0, 3), Rows(x[2])}, both.columns(3, 4),
                               causal);
            });
  cases.add(
      "columns that overlap, of grouped heads", {{2, length, 4, 5}, {2, length, 2, 4}},
      [=](Tape&, Inputs x) {
        const Rows state(x[1]);
        return attention(x[0], std::array{state.columns(0, 2), state.columns(1, 3)}, state, causal);
      });
  cases.add("columns of which some are not read", {{2, length, 2, 2}, {2, length, 2, 6}},
            [=](Tape&, Inputs x) {
              return attention(x[0], Rows(x[1]).columns(1, 2), Rows(x[1]).columns(4, 1), causal);
            });
  cases.add("parts of as many heads as queries, a group, and one",
            {{2, length, 4, 4},
             {2, length, 4, 1},
             {2, length, 2, 2},
             {2, length, 1, 1},
             {2, length, 2, 3}},
            [=](Tape&, Inputs x) {
              AttentionOptions options = causal;
              options.row_scale = RowScale::inverse_norm;
              options.window = 3;
              return attention(x[0], std::array{Rows(x[1]), Rows(x[2]), Rows(x[3])}, x[4], options);
            });
}

// Forget gates, of any sign: a log gate is at most 0 only because of what a layer makes it from.
void add_gates(CaseList& cases, Index length) {
  const Index keys = length + 2, window = cases.pick(2, 40);
  const auto add = [&](const std::string& name, Index queries, const AttentionOptions& options,
                       const Mask& mask = {}) {
    std::vector<Shape> inputs = {
        {2, queries, 4, 3}, {2, keys, 2, 3}, {2, keys, 2, 2}, {2, keys, 4, 1}};
    for (const bool sinks : {false, true}) {
      if (sinks) inputs.push_back({4});
      cases.add((sinks ? "gates and sinks, " : "gates, ") + name, inputs,
                [=](Tape& tape, Inputs x) {
                  tape.set_training(true);
                  tape.set_random(17, 4);
                  AttentionOptions gated = options;
                  gated.key_mask = mask;
                  const Rows gates = scale(x[3], Real{0.3});
                  gated.log_gates = &gates;
                  if (sinks) gated.sinks = x[4];
                  return attention(x[0], x[1], x[2], gated);
                });
    }
  };
  const Real scale{0.8};
  add("causal", keys, {.scale = scale});
  add("more keys than queries", length, {.scale = scale});
  add("all keys", keys + 1, {.scale = scale, .causal = false});
  add("window and mask", length, {.scale = scale, .window = window}, every_third_hidden(keys));
  add("queries that see nothing", keys, {.scale = scale}, padded_left(keys, cases.pick(2, 67)));
  add("dropout", keys, {.scale = scale, .dropout = Real{0.3}});
  add("inverse norm", keys, {.scale = scale, .row_scale = RowScale::inverse_norm});
  add("inverse square root of length", length,
      {.scale = scale, .row_scale = RowScale::inverse_sqrt_length});
  add("cap", length, {.scale = scale, .cap = Real{0.9}});
}

void add_options(CaseList& cases, const std::string& prefix, Index length, RowScale row_scale,
                 Real cap = 0) {
  const Index keys = length + 1, window = cases.pick(2, 40), hidden = cases.pick(2, 67);
  const Real scale{0.8};
  const AttentionOptions causal = {.scale = scale, .row_scale = row_scale, .cap = cap};
  AttentionOptions all_keys = causal, windowed = causal, dropping = causal;
  all_keys.causal = false;
  windowed.window = window;
  dropping.dropout = Real{0.3};
  add_attention(cases, prefix + "causal", {length, length, 4, 2}, causal);
  add_attention(cases, prefix + "all keys", {length, keys, 2, 2}, all_keys);
  add_attention(cases, prefix + "window", {length, length, 2, 1}, windowed);
  add_attention(cases, prefix + "window, more keys than queries", {length, keys, 2, 2}, windowed);
  add_attention(cases, prefix + "mask", {length, keys, 4, 2}, causal, every_third_hidden(keys));
  add_attention(cases, prefix + "all keys, mask", {length, keys, 2, 1}, all_keys,
                every_third_hidden(keys));
  add_attention(cases, prefix + "all keys, a sequence that sees nothing", {length, length, 2, 2},
                all_keys, second_sequence_hidden(length));
  add_attention(cases, prefix + "queries that see nothing", {length, length, 4, 2}, causal,
                padded_left(length, hidden));
  add_attention(cases, prefix + "dropout", {length, length, 2, 2}, dropping);
  AttentionOptions everything = dropping;
  everything.window = window;
  add_attention(cases, prefix + "window, mask and dropout, grouped", {length, keys, 4, 2},
                everything, every_third_hidden(keys));
}

// Pooled rows, a second group of rows in the softmax; a value may be the rows of both groups.
void add_pooled_rows(CaseList& cases, Index length) {
  AttentionOptions causal = {.scale = Real{0.7}};
  const auto add = [&](const std::string& name, const AttentionOptions& options, Index tokens,
                       Index heads) {
    const Index blocks = (length + 1) / tokens;
    cases.add("pooled rows, " + name,
              {{2, length, 4, 3},
               {2, length + 1, heads, 3},
               {2, length + 1, heads, 2},
               {2, blocks, heads, 3},
               {2, blocks, heads, 2},
               {4}},
              [=](Tape& tape, Inputs x) {
                tape.set_training(true);
                tape.set_random(17, 4);
                AttentionOptions with_pooled = options;
                with_pooled.pooled = {.keys = x[3], .values = x[4], .tokens = tokens};
                with_pooled.sinks = x[5];
                return attention(x[0], x[1], x[2], with_pooled);
              });
  };
  AttentionOptions windowed = causal, scaled = causal, dropping = causal;
  windowed.window = 2;
  scaled.row_scale = RowScale::inverse_norm;
  dropping.dropout = Real{0.3};
  add("of two tokens", causal, 2, 4);
  add("of three tokens, a window, one KV head", windowed, 3, 1);
  add("of one token, grouped", causal, 1, 2);
  add("divided by the norm of both groups", scaled, 2, 2);
  add("dropout", dropping, 2, 2);
  // Every query picks the first and the last row that it sees.
  const auto picked = std::make_shared<std::vector<std::int32_t>>();
  for (Index i = 0; i < 2 * length; ++i) {
    const auto seen = static_cast<std::int32_t>(i % length + 1);
    picked->push_back(0);
    picked->push_back(seen > 1 ? seen - 1 : -1);
  }
  cases.add(
      "pooled rows of which two are picked",
      {{2, length, 4, 3},
       {2, length, 2, 3},
       {2, length, 2, 2},
       {2, length, 1, 3},
       {2, length, 1, 2}},
      [=](Tape&, Inputs x) {
        AttentionOptions options = windowed;
        options.pooled = {
            .keys = x[3], .values = x[4], .tokens = 1, .picked = PickedRows{picked->data(), 2}};
        return attention(x[0], x[1], x[2], options);
      });
  cases.add("two tokens that are picked", {{2, length, 4, 3}, {2, length, 2, 3}, {2, length, 1, 2}},
            [=](Tape&, Inputs x) {
              AttentionOptions options = causal;
              options.picked = PickedRows{picked->data(), 2};
              return attention(x[0], x[1], x[2], options);
            });
  cases.add("pooled rows, keys that are values",
            {{2, length, 4, 3}, {2, length, 1, 3}, {2, length / 2, 1, 3}}, [=](Tape&, Inputs x) {
              AttentionOptions options = windowed;
              options.pooled = {.keys = x[2], .values = x[2], .tokens = 2};
              return attention(x[0], x[1], x[1], options);
            });
}

void add_cases_with_sinks(CaseList& cases, Index length) {
  const AttentionOptions causal = {.scale = Real{0.7}};
  AttentionOptions windowed = causal, all_keys = causal, scaled = causal, dropping = causal;
  windowed.window = cases.pick(2, 40);
  all_keys.causal = false;
  scaled.row_scale = RowScale::inverse_norm;
  dropping.dropout = Real{0.3};
  const auto shapes = [&](Index kv_heads) {
    return std::vector<Shape>{
        {2, length, 4, 3}, {2, length, kv_heads, 3}, {2, length, kv_heads, 2}};
  };
  add_sinks(cases, "causal", shapes(4), causal);
  add_sinks(cases, "one KV head, a window", shapes(1), windowed);
  add_sinks(cases, "grouped, all keys, mask", shapes(2), all_keys, every_third_hidden(length));
  add_sinks(cases, "queries that see nothing", shapes(2), causal,
            padded_left(length, cases.pick(2, 67)));
  add_sinks(cases, "inverse norm", shapes(2), scaled);
  add_sinks(cases, "dropout", shapes(2), dropping);
}

}  // namespace

// Large lengths span several tiles of 64 and end within one.
void add_attention_cases(CaseList& cases) {
  const Index length = cases.pick(4, 150);
  add_heads_and_lengths(cases, length);
  add_views(cases, length);
  add_cases_with_sinks(cases, length);
  add_gates(cases, length);
  add_pooled_rows(cases, length);
  add_options(cases, "", length, RowScale::one);
  add_options(cases, "cap, ", length, RowScale::one, Real{0.9});
  add_options(cases, "inverse norm, ", length, RowScale::inverse_norm);
  add_options(cases, "inverse square root of length, ", length, RowScale::inverse_sqrt_length);
}

}  // namespace headcount
