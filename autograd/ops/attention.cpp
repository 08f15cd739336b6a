#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/ops.h"
#include "autograd/ops/attention_kernel.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

namespace {

// Checks of the inputs of one call; each throws ShapeError.
class InputChecks {
 public:
  InputChecks(const Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
              const AttentionOptions& options)
      : tape_(tape),
        keys_(keys),
        values_(values),
        o_(options),
        qs_(tape.shape(q)),
        vs_(values.shape()),
        gradient_(tape.needs_gradient(q) ||
                  (options.sinks && tape.needs_gradient(*options.sinks))) {}

  void run() {
    add_rows(values_);
    need(!keys_.empty() && keys_.size() <= kMaxKeySlices, "keys have 1 to 4 parts");
    Index width = 0;
    for (const Rows& part : keys_) {
      add_rows(part);
      width += part.width();
    }
    need(qs_[3] == width, "q and k must have the same head dimension");
    if (o_.pooled) add_pooled(*o_.pooled);
    if (o_.log_gates != nullptr) add_gates(*o_.log_gates);
    check_visibility();
    need(o_.cap >= 0, "the cap of scores must not be negative");
    need(o_.cap == 0 || o_.row_scale != RowScale::inverse_norm,
         "scores that are divided by the norm of their row have no cap");
    need(!cached_ || !gradient_, "rows of a cache have no gradient; use a tape that computes none");
    need(!o_.sinks || tape_.shape(*o_.sinks) == Shape{qs_[2]},
         "sinks must be one score for each query head");
    const Real dropped = o_.dropout.value_or(0);
    need(dropped >= 0 && dropped < 1, "dropout must be at least 0 and below 1");
  }

 private:
  void add_rows(const Rows& rows) {
    const Shape s = rows.shape();
    need(s.rank() == 4 && qs_.rank() == 4, "q, k and v must have 4 dimensions");
    need(s[0] == qs_[0] && s[1] == vs_[1], "batch and key lengths must agree");
    need(s[2] > 0 && qs_[2] % s[2] == 0, "query heads must be a multiple of key/value heads");
    add_source(rows);
    if (rows.cache() == nullptr) return;
    const RowCache* const other = values_.cache();
    need(other == nullptr ||
             (other->capacity() == rows.cache()->capacity() && values_.tokens() == rows.tokens()),
         "the caches of keys and values must hold the same tokens");
    need(o_.key_mask.empty(), "rows of a cache cannot be masked");
    need(!rows.cache()->overwritten(rows.tokens()) || qs_[1] == 1,
         "several tokens at once would overwrite cached ones; feed one at a time");
  }

  void add_source(const Rows& rows) {
    if (rows.cache() != nullptr) cached_ = true;
    if (rows.cache() == nullptr) gradient_ = gradient_ || tape_.needs_gradient(rows.x());
  }

  void add_pooled(const PooledRows& pooled) {
    const Shape ks = pooled.keys.shape(), ps = pooled.values.shape();
    need(ks.rank() == 4 && ps.rank() == 4 && ks[0] == qs_[0] && ps[0] == qs_[0] && ks[1] == ps[1] &&
             qs_[2] % ks[2] == 0 && qs_[2] % ps[2] == 0 && ks[3] == qs_[3] && ps[3] == vs_[3],
         "pooled rows must be as wide as the others, for the same sequences");
    need(pooled.tokens > 0 && o_.causal && o_.key_mask.empty(),
         "pooled rows stand for tokens that are all seen, before the query");
    add_source(pooled.keys);
    add_source(pooled.values);
    check_selection(pooled.selection);
  }

  void add_gates(const Rows& gates) {
    add_rows(gates);
    need(gates.shape()[2] == qs_[2] && gates.width() == 1, "forget gates must be [B, S, H, 1]");
    need(gates.cache() == nullptr || !gates.cache()->converts(),
         "forget gates must be cached unrounded");
    need(!o_.pooled, "a forget gate is that of a token, not of a pooled row");
  }

  void check_selection(const std::optional<Selection>& selection) const {
    need(!selection ||
             ((tape_.is_dry() || selection->rows.rows != nullptr) && selection->rows.most > 0),
         "queries pick at least one row");
  }

  void check_visibility() const {
    check_selection(o_.selection);
    need(!o_.selection || (o_.causal && o_.key_mask.empty()),
         "queries pick from rows that are all seen, before the query");
    need(!o_.causal || qs_[1] <= vs_[1], "causal attention needs a key for every query");
    need(o_.window == 0 || (o_.causal && o_.window > 0), "a window must be positive and causal");
    need(o_.key_mask.empty() || std::ssize(o_.key_mask) == vs_[0] * vs_[1],
         "the key mask must be [B, S]");
  }

  void need(bool condition, std::string_view message) const {
    if (condition) return;
    std::string key_shapes;
    for (const Rows& part : keys_)
      key_shapes += (key_shapes.empty() ? "" : " + ") + part.shape().text();
    require(false, Op::attention, message, " (q ", qs_, ", k ", key_shapes, ", v ", vs_, ")");
  }

  const Tape& tape_;
  std::span<const Rows> keys_;
  const Rows& values_;
  const AttentionOptions& o_;
  Shape qs_, vs_;
  bool gradient_;        // whether an input needs one
  bool cached_ = false;  // whether some rows are in a cache
};

KeySource make_source(Tape& tape, std::span<const Rows> keys, const Rows& values, Index queries,
                      const std::optional<Selection>& selection) {
  KeySource source{.values = KeySlice(tape, values), .count = values.shape()[1]};
  for (const Rows& part : keys) source.slices[source.slice_count++] = KeySlice(tape, part);
  if (!selection) return source;
  source.picked = selection->rows;
  source.gathers = queries == 1 && values.cache() != nullptr;
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
      all[(b * keys + j) * p.heads + h] = sum;
    }
  });
  return all;
}

Index whole_vectors(Index columns) { return (columns + 7) / 8 * 8; }

// The rotated columns of a cache are read as they are stored if those of all sources are: products
// of rotated queries and keys are those of the others, and a rotated sum of values is turned back.
// Returns the queries, or a copy that is rotated as the keys are.
const Real* rotated_queries(Tape& tape, AttentionProblem& p) {
  const KeySource& first = p.all_sources.front();
  const auto as_first = [&](const KeySource& s) {
    const auto of_keys = [](const KeySource& of) { return of.slices.front().rotated_blocks(); };
    return &s == &first || (first.slice_count == 1 && of_keys(s) == of_keys(first));
  };
  const auto rotates = [](const KeySlice& slice) { return slice.rotated_blocks() > 1; };
  const auto values_rotate = [&](const KeySource& s) {
    return rotates(s.values) && s.values.rotated_blocks() == first.values.rotated_blocks();
  };
  if (std::ranges::all_of(p.sources(), values_rotate)) {
    for (KeySource& s : p.sources()) s.values.read_rotated();
  }
  if (!std::ranges::any_of(first.keys(), rotates) || !std::ranges::all_of(p.sources(), as_first))
    return p.q;
  for (KeySource& s : p.sources()) {
    for (KeySlice& slice : s.keys()) {
      if (rotates(slice)) slice.read_rotated();
    }
  }
  const Index rows = p.batch * p.tokens * p.heads;
  Real* const q = tape.scratch(rows * p.key_width);
  std::copy_n(p.q, rows * p.key_width, q);
  parallel_for(rows, row_chunk(p.key_width), [&](Index row) {
    Real* columns = q + row * p.key_width;
    for (const KeySlice& slice : first.keys()) {
      if (rotates(slice)) rotate_row(columns, slice.width, slice.rotated_blocks());
      columns += slice.width;
    }
  });
  return q;
}

// Turns back the sums of values that were read rotated.
void rotate_sums(const AttentionProblem& p, Real* y) {
  const KeySlice& values = p.all_sources.front().values;
  if (!values.rotated || values.rotated_blocks() == 1) return;
  parallel_for(p.batch * p.tokens * p.heads, row_chunk(p.value_width), [&](Index row) {
    rotate_row(y + row * p.value_width, p.value_width, values.rotated_blocks());
  });
}

AttentionProblem make_problem(Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                              const AttentionOptions& options) {
  const Shape qs = tape.shape(q);
  AttentionProblem p{.batch = qs[0],
                     .tokens = qs[1],
                     .heads = qs[2],
                     .key_width = qs[3],
                     .value_width = values.width(),
                     .q = tape.value(q),
                     .scale = options.scale,
                     .cap = options.cap,
                     .row_scale = options.row_scale,
                     .causal = options.causal,
                     .softmax = tape.scratch_of<RowSoftmax>(qs[0] * qs[1] * qs[2])};
  KeySource& tokens = p.all_sources.front();
  tokens = make_source(tape, keys, values, p.tokens, options.selection);
  tokens.window = options.window;
  p.mask_columns = whole_vectors(tokens.count);
  p.first_position = (values.cache() == nullptr ? tokens.count : values.tokens()) - p.tokens;
  if (options.pooled) {
    const PooledRows& rows = *options.pooled;
    KeySource& pooled = p.all_sources[p.source_count++];
    pooled = make_source(tape, {&rows.keys, 1}, rows.values, p.tokens, rows.selection);
    pooled.block = rows.tokens;
    pooled.first_column = p.mask_columns;
    p.mask_columns += whole_vectors(pooled.count);
  }
  p.q = rotated_queries(tape, p);
  for (KeySource& s : p.sources()) {
    for (const KeySlice& slice : s.keys()) p.kv_heads = std::lcm(p.kv_heads, slice.heads);
    p.kv_heads = std::lcm(p.kv_heads, s.values.heads);
    if (!s.gathers) continue;
    s.count = std::min(p.end_row(s, 0) - p.first_row(s, 0), s.picked.most);
    s.window = 0;  // all picked rows are within it
  }
  if (options.sinks) p.sinks = tape.value(*options.sinks);
  if (p.row_scale != RowScale::one) p.row_factors = tape.scratch(qs[0] * qs[1] * qs[2]);
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

// Writes the weights of the picked rows, summed over the heads, to those of `selection`.
void find_picked_weights(Tape& tape, const AttentionProblem& p, const KeySource& source,
                         const std::optional<Selection>& selection) {
  if (!selection || selection->weights == nullptr) return;
  const Index most = selection->rows.most;
  std::fill_n(selection->weights, p.batch * p.tokens * most, Real{0});
  visit_weights(tape, p, [&](const RowWeights& w) {
    if (&w.source != &source) return;
    const std::int32_t* const list = selection->rows.of(w.b, w.t, p.tokens);
    Real* const to = selection->weights + (w.b * p.tokens + w.t) * most;
    if (source.gathers) {
      for (Index r = 0; r < w.count; ++r) to[w.j + r] += w.weights[r * w.stride];
      return;
    }
    for (Index n = 0; n < most; ++n) {
      if (list[n] >= w.j && list[n] < w.j + w.count) to[n] += w.weights[(list[n] - w.j) * w.stride];
    }
  });
}

// Gradients of tensors, to which several slices may add.
class GradientSums {
 public:
  explicit GradientSums(Tape& tape) : tape_(tape) {}
  // Gradient of x to add to, zero unless there is a contribution; null if x needs none.
  Real* of(Var x) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (all_[i].first == x.index) return all_[i].second;
    }
    const GradientSink sink = tape_.gradient_sink(x);
    if (sink && sink.write == Write::assign) {
      parallel_chunks(tape_.shape(x).size(), kElementChunk, [=](Index begin, Index end) {
        std::fill(sink.data + begin, sink.data + end, Real{0});
      });
    }
    all_[count_++] = {x.index, sink.data};
    return sink.data;
  }
  // Gradient of the rows of a slice.
  void add_to(KeySlice& slice) {
    if (slice.x.tape == nullptr) return;
    Real* const whole = of(slice.x);
    if (whole != nullptr) slice.gradient = whole + slice.first_column;
  }

 private:
  Tape& tape_;
  std::array<std::pair<std::uint32_t, Real*>, 2 * kMaxKeySlices> all_;
  std::size_t count_ = 0;
};

// The score of query i and row j has the gates up to i less those up to j, so that a gate's
// gradient is the sum of the scores' gradients of the rows before it. `sums` [B, S, H] are those of
// rows.
void put_gate_gradients(const AttentionProblem& p, const Real* sums, const KeySlice& gates) {
  const Index keys = p.sources().front().count;
  parallel_for(p.batch * p.heads, task_chunk(keys), [&](Index head) {
    const Index b = head / p.heads, h = head % p.heads;
    double before = 0;
    for (Index j = 0; j < keys; ++j) {
      if (!p.masks(b, j)) gates.gradient[gates.offset(b, j, h)] += static_cast<Real>(before);
      before += static_cast<double>(sums[(b * keys + j) * p.heads + h]);
    }
  });
}

// Scratch of a vjp, set to zero; none if `size` is 0.
class Zeros {
 public:
  Zeros(BufferPool& pool, Index size) : pool_(pool), data_(size > 0 ? pool.take(size) : nullptr) {
    std::fill_n(data_, size, Real{0});
  }
  ~Zeros() {
    if (data_ != nullptr) pool_.give_back(data_);
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  Real* data() const { return data_; }

 private:
  BufferPool& pool_;
  Real* data_;
};

void backward(Tape& tape, AttentionProblem p, Var q, const std::optional<Var>& sinks,
              KeySlice gates, const Real* y, const Real* dy) {
  GradientSums sums(tape);
  for (KeySource& s : p.sources()) {
    for (KeySlice& slice : s.keys()) sums.add_to(slice);
    sums.add_to(s.values);
  }
  sums.add_to(gates);
  const GradientSink dsinks = sinks ? tape.gradient_sink(*sinks) : GradientSink{};
  const Index keys = p.sources().front().count;
  const Zeros of_sinks(tape.pool(), dsinks ? p.batch * p.heads : 0);
  const Zeros of_gates(tape.pool(), gates.gradient != nullptr ? p.batch * keys * p.heads : 0);
  attention_backward(tape, p, y, dy, {{sums.of(q), Write::add}, of_sinks.data(), of_gates.data()});
  if (gates.gradient != nullptr) put_gate_gradients(p, of_gates.data(), gates);
  for (Index b = 0; dsinks && b < p.batch; ++b)
    put({dsinks.data, b > 0 ? Write::add : dsinks.write}, 0,
        array(of_sinks.data() + b * p.heads, p.heads));
}

// Multiply-accumulates of scores and weighted sums if every query reads as many rows as the last
// one: masked pairs count. One query reads those rows alone that it picks.
Count count_pairs(const Shape& q, const Rows& values, const AttentionOptions& options) {
  const auto read = [&](Index rows, Index window, const std::optional<Selection>& selection) {
    if (window > 0) rows = std::min(rows, window);
    return selection && q[1] == 1 ? std::min(rows, selection->rows.most) : rows;
  };
  Index rows = read(values.shape()[1], options.window, options.selection);
  if (const std::optional<PooledRows>& pooled = options.pooled)
    rows += read(pooled->values.shape()[1], 0, pooled->selection);
  return Count(q.rows()) * (q.last() + values.width()) * rows;
}

}  // namespace

// For each head, with f the factor of a row (scale and RowScale) and M the dropout multipliers:
//   y = (P o M) V,  P = softmax(f Q K^T) over the keys that a query sees
// Forget gates add to the scores and sinks join the softmax (see AttentionOptions). The gradients
// stand above StripBackward in attention_kernel.cpp.
Var attention(Var q, std::span<const Rows> keys, const Rows& values,
              const AttentionOptions& options) {
  Tape& tape = tape_of(q);
  InputChecks(tape, q, keys, values, options).run();
  std::vector<Var> inputs = {q};
  const auto add_input = [&](const Rows& rows) {
    if (rows.cache() == nullptr) inputs.push_back(rows.x());
  };
  std::ranges::for_each(keys, add_input);
  add_input(values);
  if (options.pooled) add_input(options.pooled->keys), add_input(options.pooled->values);
  if (options.log_gates != nullptr) add_input(*options.log_gates);
  if (options.sinks) inputs.push_back(*options.sinks);
  const Var y = tape.record(Op::attention, tape.shape(q).with_last(values.width()), inputs);
  if (tape.is_dry() && tape.dry(y, count_pairs(tape.shape(q), values, options))) return y;
  const AttentionProblem p = make_problem(tape, q, keys, values, options);
  Real* const out = tape.value(y);
  attention_forward(tape, p, out);
  rotate_sums(p, out);
  if (options.stats != nullptr) add_stats(tape, p, *options.stats);
  find_picked_weights(tape, p, p.sources().front(), options.selection);
  if (options.pooled) find_picked_weights(tape, p, p.sources().back(), options.pooled->selection);
  const KeySlice gates =
      options.log_gates != nullptr ? KeySlice(tape, *options.log_gates) : KeySlice();
  tape.finish(y, [=, sinks = options.sinks](Tape& t, const Real* dy) {
    backward(t, p, q, sinks, gates, out, dy);
  });
  return y;
}

}  // namespace headcount
