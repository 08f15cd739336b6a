#include "nn/attention/costs.h"

#include <algorithm>
#include <utility>

#include "autograd/base/text.h"
#include "autograd/checks/dry_counts.h"
#include "nn/attention/attention.h"

namespace headcount {

namespace {

struct Observed {
  std::vector<Kept> keeps;
  Count parameters;
  DryCounts macs;
  std::optional<Shape> values;  // that the layer offers for `value-residual`
};

enum class Reads { tape, cache };

// Runs a layer on `tokens` tokens of a text, after `before` ones.
Observed observe(AttentionPlan plan, Index before = 0, Index tokens = 1, Reads reads = Reads::tape,
                 std::string_view form = {}) {
  plan.max_positions = std::max(plan.max_positions, before + tokens);
  ParameterStore parameters;
  Observed seen;
  Tape tape(parameters, seen.macs);
  const auto pass_of = [&] {
    return DryPass{.tape = tape,
                   .tokens = tokens,
                   .first_position = before,
                   .decodes = reads == Reads::cache,
                   .window = plan.window,
                   .form = std::string(form)};
  };
  const auto run = [&](const std::string& name, const AttentionPlan& layer, Memory& memory) {
    const Var x = tape.dry_leaf({1, tokens, layer.dim});
    make_attention(parameters, name, layer, {})->forward(x, memory);
  };
  DryPass of_writer = pass_of(), pass = pass_of();
  Memory memory(pass);
  if (plan.shared().any()) {
    Memory writer(of_writer);
    run("writer", plan.sharing({}), writer);
    memory = Memory::sharing(writer, memory, plan);
    seen.macs = {};
  }
  const Index before_layer = parameters.element_count();
  run("layer", plan, memory);
  seen.parameters = parameters.element_count() - before_layer;
  seen.keeps = std::move(pass.keeps);
  if (const std::optional<Var>& values = memory.first_values()) seen.values = values->shape();
  // clang 14 lacks std::ranges::stable_partition.
  const auto states = std::stable_partition(seen.keeps.begin(), seen.keeps.end(),
                                            [](const Kept& kept) { return !kept.per_sequence; });
  require_setting(!plan.shares() || (pass.reads_other && states == seen.keeps.begin()),
                  "a layer of {} cannot share the cache of another layer", plan.kind().name);
  return seen;
}

// Scores and weighted sums of the rows that queries read, or updates of a state.
Count macs_of_rows(const DryCounts& macs) {
  return macs[Op::attention].of_tokens + macs[Op::pick_rows].of_tokens +
         macs[Op::gated_delta_rule].of_tokens + macs[Op::gated_linear_attention].of_tokens;
}

}  // namespace

std::vector<Kept> cache_parts(const AttentionPlan& plan) { return observe(plan).keeps; }

LayerCache make_cache(const AttentionPlan& plan, const CacheOptions& options,
                      const std::vector<Kept>& of_block) {
  const std::vector<std::string_view> forms = attention_forms(plan);
  const std::string known = joined(forms);
  require_setting(options.form.empty() || std::ranges::find(forms, options.form) != forms.end(),
                  "{} with these settings cannot compute from its cache in the form {}; choose {}",
                  plan.kind().name, options.form, known.empty() ? "auto" : known);
  CacheOptions own = options;
  own.window = plan.window;
  std::vector<Kept> keeps = cache_parts(plan);
  keeps.insert(keeps.end(), of_block.begin(), of_block.end());
  return {std::move(keeps), own};
}

std::optional<Shape> values_to_mix(const AttentionPlan& plan) { return observe(plan).values; }

std::vector<AttentionCosts> attention_costs(const AttentionPlan& plan, Index context) {
  std::vector<AttentionCosts> all;
  const auto name_of = [&](std::string_view form) {
    return std::string(plan.kind().name) + (all.empty() ? "" : "-" + std::string(form));
  };
  for (const std::string_view form : attention_forms(plan)) {
    const Observed token = observe(plan, 0, 1, Reads::tape, form),
                   prefill = observe(plan, 0, context, Reads::tape, form),
                   decode = observe(plan, context - 1, 1, Reads::cache, form);
    all.push_back({{.parameters = token.parameters,
                    .linear_macs_per_token =
                        token.macs.sum().of_tokens.value() - macs_of_rows(token.macs).value(),
                    .prefill_macs = macs_of_rows(prefill.macs),
                    .decode_macs = macs_of_rows(decode.macs),
                    .expansion_macs = decode.macs.sum().of_cache},
                   name_of(form)});
  }
  const auto counted = plan.kind().counted;
  if (const auto form = counted != nullptr ? counted(plan) : std::nullopt) {
    AttentionCosts costs = all.back();
    costs.name = name_of(form->name);
    costs.parameters += form->parameters;
    costs.linear_macs_per_token += form->macs_per_token;
    all.push_back(std::move(costs));
  }
  return all;
}

std::vector<std::string> attention_notes(const AttentionPlan& plan) {
  std::vector<std::string> notes;
  if (plan.kind().notes != nullptr) notes = plan.kind().notes(plan);
  Index block = 0, of_block = 0, of_token = 0, open = 0;
  for (const Kept& kept : cache_parts(plan)) {
    if (kept.block > 0) block = kept.block;
    (kept.block == 0 ? of_token : kept.per_sequence ? open : of_block) += kept.numbers();
  }
  if (of_block == 0) return notes;
  const auto numbers = [](Count count) { return std::to_string(count.value()) + " numbers"; };
  const std::string tokens = std::to_string(block), window = std::to_string(plan.window);
  std::string keeps = "each layer of " + std::string(plan.kind().name) + " keeps 1/" + tokens +
                      " of a row of " + numbers(of_block) + " per token, ";
  keeps += plan.window > 0 ? "in its window at most " + numbers(Count(of_token) * plan.window)
                           : numbers(of_token) + " more without a window";
  notes.insert(notes.begin(), std::move(keeps) + ", and for an open block " + numbers(open));
  if (plan.max_positions > 0 && block > plan.max_positions) {
    notes.push_back("a block of " + tokens + " tokens is longer than the context of " +
                    std::to_string(plan.max_positions) +
                    ", so that no row is ever pooled; lower `compress` or raise `context`");
    return notes;
  }
  // The last token of a block completes it, and the others are in such a window until then.
  const Index enough = block - 1;
  if (plan.window > 0 && plan.window < enough) {
    notes.push_back("a `window` of " + window + " is shorter than an open block of " + tokens +
                    " tokens: those that have left the window are read by nobody until their "
                    "block is complete; a window of " +
                    std::to_string(enough) + " or more reads them");
  }
  return notes;
}

}  // namespace headcount
