#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "autograd/attention/attention_kernel.h"
#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products/mac_counter.h"

namespace headcount {

namespace {

// Throws ShapeError unless the inputs fit together.
void check(const Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
           const AttentionOptions& o) {
  const Shape qs = tape.shape(q), vs = values.shape();
  const auto need = [&](bool condition, std::string_view message) {
    if (condition) return;
    std::string key_shapes;
    for (const Rows& part : keys)
      key_shapes += (key_shapes.empty() ? "" : " + ") + part.shape().text();
    require(false, Op::attention, "{} (q {}, k {}, v {})", message, qs, key_shapes, vs);
  };
  bool cached = false;  // whether some rows are in a cache
  bool gradient = tape.needs_gradient(q) || (o.sinks && tape.needs_gradient(*o.sinks));
  const auto add_source = [&](const Rows& rows) {
    cached = cached || rows.cache() != nullptr;
    gradient = gradient || (rows.cache() == nullptr && tape.needs_gradient(rows.x()));
  };
  const auto add_rows = [&](const Rows& rows) {
    const Shape s = rows.shape();
    need(s.rank() == 4 && qs.rank() == 4, "q, k and v must have 4 dimensions");
    need(s[0] == qs[0] && s[1] == vs[1], "batch and key lengths must agree");
    need(s[2] > 0 && qs[2] % s[2] == 0, "query heads must be a multiple of key/value heads");
    add_source(rows);
    const RowCache *const cache = rows.cache(), *const other = values.cache();
    if (cache == nullptr) return;
    need(other == nullptr ||
             (other->capacity() == cache->capacity() && values.tokens() == rows.tokens()),
         "the caches of keys and values must hold the same tokens");
    need(o.key_mask.empty(), "rows of a cache cannot be masked");
    need(!cache->overwritten(rows.tokens()) || qs[1] == 1,
         "several tokens at once would overwrite cached ones; feed one at a time");
  };
  const auto check_picked = [&](const std::optional<PickedRows>& picked) {
    need(!picked || ((tape.is_dry() || picked->rows != nullptr) && picked->most > 0 &&
                     qs[2] % picked->lists == 0),
         "queries pick at least one row, in lists for equal numbers of heads");
  };
  add_rows(values);
  need(!keys.empty() && keys.size() <= kMaxKeySlices, "keys have 1 to 4 parts");
  Index width = 0;
  for (const Rows& part : keys) add_rows(part), width += part.width();
  need(qs[3] == width, "q and k must have the same head dimension");
  if (o.pooled) {
    const Shape ks = o.pooled->keys.shape(), ps = o.pooled->values.shape();
    need(ks.rank() == 4 && ps.rank() == 4 && ks[0] == qs[0] && ps[0] == qs[0] && ks[1] == ps[1] &&
             qs[2] % ks[2] == 0 && qs[2] % ps[2] == 0 && ks[3] == qs[3] && ps[3] == vs[3],
         "pooled rows must be as wide as the others, for the same sequences");
    need(o.pooled->tokens > 0 && o.causal && o.key_mask.empty(),
         "pooled rows stand for tokens that are all seen, before the query");
    add_source(o.pooled->keys), add_source(o.pooled->values);
    check_picked(o.pooled->picked);
  }
  if (o.log_gates != nullptr) {
    const Rows& gates = *o.log_gates;
    add_rows(gates);
    need(gates.shape()[2] == qs[2] && gates.width() == 1, "forget gates must be [B, S, H, 1]");
    need(gates.cache() == nullptr || !gates.cache()->converts(),
         "forget gates must be cached unrounded");
    need(!o.pooled, "a forget gate is that of a token, not of a pooled row");
  }
  check_picked(o.picked);
  need(!o.picked || (o.causal && o.key_mask.empty()),
       "queries pick from rows that are all seen, before the query");
  need(!o.causal || qs[1] <= vs[1], "causal attention needs a key for every query");
  need(o.window == 0 || (o.causal && o.window > 0), "a window must be positive and causal");
  need(o.key_mask.empty() || std::ssize(o.key_mask) == vs[0] * vs[1],
       "the key mask must be [B, S]");
  need(o.cap >= 0, "the cap of scores must not be negative");
  need(o.cap == 0 || o.row_scale != RowScale::inverse_norm,
       "scores that are divided by the norm of their row have no cap");
  need(!cached || !gradient, "rows of a cache have no gradient; use a tape that computes none");
  need(!o.sinks || tape.shape(*o.sinks) == Shape{qs[2]},
       "sinks must be one score for each query head");
  const Real dropped = o.dropout.value_or(0);
  need(dropped >= 0 && dropped < 1, "dropout must be at least 0 and below 1");
}

KeySource make_source(Tape& tape, std::span<const Rows> keys, const Rows& values,
                      const std::optional<PickedRows>& picked) {
  KeySource source{.values = KeySlice(tape, values), .count = values.shape()[1]};
  for (const Rows& part : keys) source.slices[source.slice_count++] = KeySlice(tape, part);
  source.picked = picked.value_or(PickedRows());
  return source;
}

// Sums [B, S, H] of the log gates up to each key. A masked token is not there: its gate is open.
const double* sums_of_gates(Tape& tape, const AttentionProblem& p, const KeySlice& gates) {
  const Index keys = p.sources().front().count;
  double* const all = tape.scratch_of<double>(p.batch * keys * p.heads);
  parallel_for(p.batch * p.heads, task_chunk(keys), [&](Index head) {
    const Index b = head / p.heads, h = head % p.heads;
    double sum = 0;
    for (Index j = 0; j < keys; ++j) {
      if (!p.masks(b, j)) sum += static_cast<double>(gates.data[gates.offset(b, j, h)]);
      all[p.gate(b, j, h)] = sum;
    }
  });
  return all;
}

// Rotated columns of a cache are read as they are stored: products of rotated queries and keys are
// those of the others. Returns the queries, or a copy that is rotated as the keys are.
const Real* rotated_queries(Tape& tape, const Real* q, Index rows, Index width, KeySource& s) {
  bool rotates = false;
  for (KeySlice& slice : s.keys()) {
    slice.read_rotated(slice.rotated_blocks());
    rotates = rotates || slice.block > 1;
  }
  if (!rotates) return q;
  Real* const rotated = tape.scratch(rows * width);
  std::copy_n(q, rows * width, rotated);
  parallel_for(rows, row_chunk(width), [&](Index row) {
    Real* columns = rotated + row * width;
    for (const KeySlice& slice : s.keys()) {
      rotate_row(columns, slice.width, slice.block);
      columns += slice.width;
    }
  });
  return rotated;
}

AttentionProblem make_problem(Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                              const AttentionOptions& options) {
  const Shape qs = tape.shape(q);
  const Index rows = qs[0] * qs[1] * qs[2];
  AttentionProblem p{
      .batch = qs[0],
      .tokens = qs[1],
      .heads = qs[2],
      .key_width = qs[3],
      .value_width = values.width(),
      .scale = options.scale,
      .cap = options.cap,
      .row_scale = options.row_scale,
      .causal = options.causal,
      .rounds = tape.precision() == Precision::bf16 && qs[1] >= kernel::kTile && tiles::available(),
      .softmax = tape.scratch_of<RowSoftmax>(rows)};
  KeySource& tokens = p.all_sources.front();
  tokens = make_source(tape, keys, values, options.picked);
  tokens.window = options.window;
  p.first_position = (values.cache() == nullptr ? tokens.count : values.tokens()) - p.tokens;
  if (options.pooled) {
    const PooledRows& pooled = *options.pooled;
    KeySource& source = p.all_sources[p.source_count++];
    source = make_source(tape, {&pooled.keys, 1}, pooled.values, pooled.picked);
    source.block = pooled.tokens;
  }
  const Index rotated = tokens.values.rotated_blocks();
  const bool alike = std::ranges::all_of(
      p.sources(), [=](const KeySource& s) { return s.values.rotated_blocks() == rotated; });
  for (KeySource& s : p.sources()) {
    s.q = rotated_queries(tape, tape.value(q), rows, p.key_width, s);
    if (alike) s.values.read_rotated(rotated);
    for (const KeySlice& slice : s.keys()) p.kv_heads = std::lcm(p.kv_heads, slice.heads);
    p.kv_heads = std::lcm(p.kv_heads, s.values.heads);
    s.first_column = std::exchange(p.columns, p.columns + (s.count + 7) / 8 * 8);
  }
  if (options.sinks) p.sinks = tape.value(*options.sinks);
  if (p.row_scale != RowScale::one) p.row_factors = tape.scratch(rows);
  const Real dropped = options.dropout.value_or(tape.dropout());
  if (tape.training() && dropped > 0) p.dropout = Dropout(dropped, tape.next_random_key());
  if (!options.key_mask.empty()) {
    auto* const mask = tape.scratch_of<std::uint8_t>(std::ssize(options.key_mask));
    std::ranges::copy(options.key_mask, mask);
    p.key_mask = mask;
  }
  if (options.log_gates != nullptr)
    p.gate_sums = sums_of_gates(tape, p, KeySlice(tape, *options.log_gates));
  return p;
}

void add_stats(Tape& tape, const AttentionProblem& p, AttentionStats& stats) {
  const Index queries = p.batch * p.heads * p.tokens, keys = p.sources().front().count;
  const Index pooled = p.source_count > 1 ? p.sources().back().count : 0;
  const std::size_t before = stats.weights.size(), pooled_before = stats.pooled_weights.size();
  if (stats.keeps_weights) {
    stats.weights.resize(before + static_cast<std::size_t>(queries * keys));
    stats.pooled_weights.resize(pooled_before + static_cast<std::size_t>(queries * pooled));
  }
  Real* const entropies = tape.scratch(queries);  // [B, T, H]
  for (Index row = 0; row < queries; ++row) {
    const RowSoftmax& softmax = p.softmax[row];
    entropies[row] = 0;
    if (p.sinks == nullptr || softmax.inverse == 0) continue;
    const Real sink = p.sinks[row % p.heads];
    entropies[row] = -softmax.weight(sink) * softmax.log_weight(sink);
  }
  visit_weights(tape, p, [&](const RowWeights& w) {
    Real& entropy = entropies[(w.b * p.tokens + w.t) * p.heads + w.h];
    const Index query = (w.b * p.heads + w.h) * p.tokens + w.t;
    for (Index r = 0; r < w.count; ++r) {
      const Real weight = w.weights[r * w.stride];
      if (weight > 0) entropy -= weight * w.log_weights[r * w.stride];
      if (!stats.keeps_weights || weight == 0) continue;
      Real* const row = stats.weights.data() + before + query * keys;
      const Index j = w.j + r, block = w.source.block;
      if (block == 0) {
        row[j] = weight;
      } else {
        array(row + j * block, block) += weight / static_cast<Real>(block);
        stats.pooled_weights[pooled_before + static_cast<std::size_t>(query * pooled + j)] = weight;
      }
    }
  });
  for (Index row = 0; row < queries; ++row) {
    if (p.softmax[row].inverse == 0) continue;  // the query sees no key
    stats.entropy_sum += static_cast<double>(entropies[row]);
    ++stats.rows;
  }
}

// Writes the weights of the picked rows, summed over the heads, where they are wanted.
void find_picked_weights(Tape& tape, const AttentionProblem& p) {
  const auto wanted = [](const KeySource& s) { return s.picked.weights != nullptr; };
  for (const KeySource& s : p.sources())
    if (wanted(s)) std::fill_n(s.picked.weights, s.picked.offset(p.batch, 0, p.tokens, 0), Real{0});
  if (std::ranges::none_of(p.sources(), wanted)) return;
  visit_weights(tape, p, [&](const RowWeights& w) {
    const PickedRows& picked = w.source.picked;
    if (picked.weights == nullptr) return;
    const Index offset = picked.offset(w.b, w.t, p.tokens, w.h * picked.lists / p.heads);
    for (Index n = offset; n < offset + picked.most && picked.rows[n] >= 0; ++n) {
      const Index end = std::min(w.count, picked.begin(picked.rows[n] + 1) - w.j);
      for (Index r = std::max<Index>(0, picked.begin(picked.rows[n]) - w.j); r < end; ++r)
        picked.weights[n] += w.weights[r * w.stride];
    }
  });
}

// The score of query i and row j has the gates up to i less those up to j, so that a gate's
// gradient is the sum of the scores' gradients of the rows before it.
void put_gate_gradients(const AttentionProblem& p, const KeySlice& gates) {
  const Index keys = p.sources().front().count;
  parallel_for(p.batch * p.heads, task_chunk(keys), [&](Index head) {
    const Index b = head / p.heads, h = head % p.heads;
    double before = 0;
    for (Index j = 0; j < keys; ++j) {
      if (!p.masks(b, j)) gates.gradient[gates.offset(b, j, h)] += static_cast<Real>(before);
      before += static_cast<double>(p.gradients_of_row[p.gate(b, j, h)]);
    }
  });
}

void backward(Tape& tape, AttentionProblem p, Var q, const std::optional<Var>& sinks,
              KeySlice gates, const Real* y, const Real* dy) {
  const auto set_gradient = [&](KeySlice& slice) {
    if (slice.x.tape == nullptr) return;
    const GradientSink sink = sink_of_parts(tape, slice.x);
    if (sink) slice.gradient = sink.data + slice.first_column;
  };
  for (KeySource& s : p.sources()) {
    std::ranges::for_each(s.keys(), set_gradient);
    set_gradient(s.values);
  }
  set_gradient(gates);
  const GradientSink dsinks = sinks ? tape.gradient_sink(*sinks) : GradientSink{};
  p.q_gradient = tape.gradient_sink(q);
  const auto zeros = [&](Index count) {
    Real* const numbers = tape.pool().take(count);
    return std::fill_n(numbers, count, Real{0}) - count;
  };
  if (dsinks) p.sink_gradients = zeros(p.batch * p.heads);
  if (gates.gradient != nullptr)
    p.gradients_of_row = zeros(p.batch * p.sources().front().count * p.heads);
  attention_backward(tape, p, y, dy);
  put_column_sums(dsinks, p.batch, p.heads,
                  [&](Index b, Index h) { return p.sink_gradients[b * p.heads + h]; });
  if (gates.gradient != nullptr) put_gate_gradients(p, gates);
  for (Real* const taken : {p.sink_gradients, p.gradients_of_row})
    if (taken != nullptr) tape.pool().give_back(taken);
}

// Pairs of queries and rows if every query reads as many rows as the last one: masked pairs count.
Count count_pairs(const Shape& q, const Rows& values, const AttentionOptions& options) {
  Index rows = values.shape()[1];
  if (options.window > 0) rows = std::min(rows, options.window);
  if (options.pooled) rows += options.pooled->values.shape()[1];
  return Count(q.rows()) * rows;
}

}  // namespace

// For each head, with f the factor of a row (scale and RowScale) and M the dropout multipliers:
//   y = (P o M) V,  P = softmax(f Q K^T) over the keys that a query sees
// Forget gates add to the scores and sinks join the softmax (see AttentionOptions). The gradients
// stand above StripBackward.
Var attention(Var q, std::span<const Rows> keys, const Rows& values,
              const AttentionOptions& options) {
  Tape& tape = tape_of(q);
  check(tape, q, keys, values, options);
  std::vector<Var> inputs = {q};
  const auto add_input = [&](const Rows& rows) {
    if (rows.cache() == nullptr) inputs.push_back(rows.x());
  };
  std::ranges::for_each(keys, add_input);
  add_input(values);
  if (options.pooled) add_input(options.pooled->keys), add_input(options.pooled->values);
  if (options.log_gates != nullptr) add_input(*options.log_gates);
  if (options.sinks) inputs.push_back(*options.sinks);
  const Shape shape = tape.shape(q);
  const Index key_width = shape.last(), value_width = values.width();
  const Var y = tape.record(Op::attention, shape.with_last(value_width), inputs);
  const Count pairs = count_pairs(shape, values, options);
  if (tape.dry(y, pairs * (key_width + value_width))) return y;
  count_macs((pairs * (key_width + value_width)).value());
  const AttentionProblem p = make_problem(tape, q, keys, values, options);
  Real* const out = tape.value(y);
  attention_forward(tape, p, out);
  if (const Index block = p.sources().front().values.block; block > 1) {
    parallel_for(shape.rows(), row_chunk(value_width),
                 [=](Index row) { rotate_row(out + row * value_width, value_width, block); });
  }
  if (options.stats != nullptr) add_stats(tape, p, *options.stats);
  find_picked_weights(tape, p);
  const KeySlice gates =
      options.log_gates != nullptr ? KeySlice(tape, *options.log_gates) : KeySlice();
  tape.finish(y, [=, sinks = options.sinks](Tape& t, const Real* dy) {
    count_macs((pairs * (3 * key_width + 2 * value_width)).value());
    backward(t, p, q, sinks, gates, out, dy);
  });
  return y;
}

}  // namespace headcount
