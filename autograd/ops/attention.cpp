#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "autograd/ops.h"
#include "autograd/ops/attention_kernels.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

namespace {

// Columns of a tensor that a call reads, and the destination of their gradient.
struct Use {
  Var x = {};  // of no tape for rows of a cache
  Index first = 0, width = 0;
  Index group = 1;            // query heads that read one head
  Index stacked = 1;          // heads of the tensor that are rows of one matrix
  GradientSink sink = {};     // of the whole tensor
  RowGradient gradient = {};  // in the sink, or in a copy for each query head
};
// The queries, the parts of the keys, the values and, if there are any, the forget gates or the
// pooled keys and values.
using Uses = std::array<Use, kMaxKeyParts + 4>;

std::vector<Var> inputs_of(std::span<const Use> uses, const std::optional<Var>& sinks) {
  std::vector<Var> inputs;
  if (sinks) inputs.push_back(*sinks);
  for (const Use& use : uses) {
    if (use.x.tape != nullptr) inputs.push_back(use.x);
  }
  return inputs;
}

// Gives each use the sink of its tensor. A tensor of which there are several uses, or only columns
// are used, is set to zero first.
void take_sinks(Tape& tape, std::span<Use> uses) {
  for (auto use = uses.begin(); use != uses.end(); ++use) {
    const auto same = [&](const Use& other) { return other.x.index == use->x.index; };
    if (const auto before = std::find_if(uses.begin(), use, same); before != use) {
      use->sink = before->sink;
      continue;
    }
    use->sink = tape.gradient_sink(use->x);
    const Shape& shape = tape.shape(use->x);
    const bool once = std::find_if(use + 1, uses.end(), same) == uses.end();
    if (!use->sink || use->sink.write == Write::add || (once && use->width == shape[3])) continue;
    Real* const data = use->sink.data;
    parallel_chunks(shape.size(), kElementChunk,
                    [=](Index begin, Index end) { std::fill(data + begin, data + end, Real{0}); });
    use->sink.write = Write::add;
  }
}

// Query heads that read the same head write to copies of its gradient, which are added up in order.
void take_copies(Tape& tape, std::span<Use> uses, Index query_heads) {
  for (Use& use : uses) {
    if (!use.sink) continue;
    const Shape& shape = tape.shape(use.x);
    const auto place = HeadRows<Real>::of;
    if (use.group == 1) {
      use.gradient = {place(use.sink.data, shape[1] * use.stacked, shape[2] / use.stacked, shape[3],
                            use.first, use.width),
                      use.sink.write};
    } else {
      Real* const copies = tape.pool().take(shape[0] * shape[1] * query_heads * use.width);
      use.gradient = {place(copies, shape[1], query_heads, use.width, 0, use.width)};
    }
  }
}

void add_copies(Tape& tape, std::span<const Use> uses) {
  for (const Use& use : uses) {
    if (!use.sink || use.group == 1) continue;
    const Shape& shape = tape.shape(use.x);
    const Real* const copies = use.gradient.data;
    const Index group = use.group, width = use.width, row_width = shape[3], first = use.first;
    parallel_for(shape.rows(), row_chunk(group * width), [&, copies](Index i) {
      for (Index h = 0; h < group; ++h) {
        put({use.sink.data, h > 0 ? Write::add : use.sink.write}, i * row_width + first,
            array(copies + (i * group + h) * width, width));
      }
    });
    tape.pool().give_back(use.gradient.data);
  }
}

Index padded(Index columns) { return (columns + 7) / 8 * 8; }

// Sums [B, H, S] of the log gates up to each key. A masked token is not there: its gate is open.
const double* sums_of_gates(Tape& tape, const AttentionProblem& p, const RowView& gates) {
  double* const all = tape.scratch_of<double>(p.batch * p.heads * p.key_count);
  parallel_for(p.batch * p.heads, task_chunk(p.key_count), [&](Index head) {
    const Index b = head / p.heads, h = head % p.heads;
    double sum = 0;
    for (Index j = 0; j < p.key_count; ++j) {
      if (!p.masked(b, j)) sum += static_cast<double>(*gates.stored.at(b, j, h));
      all[head * p.key_count + j] = sum;
    }
  });
  return all;
}

// Scratch for one tile of converted rows per thread, which all groups share.
void take_tiles(Tape& tape, AttentionGroups& groups) {
  Index tile = 0;
  for (const AttentionProblem& group : groups) {
    tile = std::max(tile, group.values.scratch_size());
    for (const RowView& part : group.keys) tile = std::max(tile, part.scratch_size());
  }
  if (tile == 0) return;
  const Index threads_here = OnOneThread::active() ? 1 : threads();
  Real* const tiles = tape.scratch(threads_here * tile);
  for (AttentionProblem& group : groups.all) {
    group.tiles = tiles;
    group.tile_stride = threads_here == 1 ? 0 : tile;
  }
}

AttentionGroups make_groups(Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                            const AttentionOptions& options) {
  const Shape qs = tape.shape(q);
  const Index rows = qs[0] * qs[1] * qs[2], stacked = options.stacked ? qs[2] : 1;
  const Index length = qs[1] * stacked, heads = qs[2] / stacked;
  const auto all_queries = HeadRows<const Real>::of(tape.value(q), length, heads, qs[3], 0, qs[3]);
  AttentionProblem p{.batch = qs[0],
                     .length = length,
                     .heads = heads,
                     .q = all_queries,
                     .keys = {},
                     .values = view_of(tape, values, heads),
                     .key_count = values.shape()[1],
                     .scale = options.scale,
                     .causal = options.causal,
                     .window = options.window,
                     .cap = options.cap,
                     .row_scale = options.row_scale,
                     .dropout = {},
                     .key_mask = nullptr,
                     .softmax = tape.scratch_of<RowSoftmax>(rows),
                     .row_factor = nullptr,
                     .stacked = stacked};
  for (const Rows& part : keys) p.keys.parts[p.keys.count++] = view_of(tape, part, heads);
  if (options.sinks) p.sinks = tape.value(*options.sinks);
  if (options.row_scale != RowScale::one) p.row_factor = tape.scratch(rows);
  const Real dropped = options.dropout.value_or(tape.dropout());
  if (tape.training() && dropped > 0) p.dropout = Dropout(dropped, tape.next_random_key());
  p.columns = padded(p.key_count);
  AttentionGroups groups{.all = {p, p}};
  groups.all.front().selection = options.selection.value_or(Selection{});
  if (options.pooled) {
    AttentionProblem& pooled = groups.all.back();
    groups.count = 2;
    pooled.keys = {.parts = {view_of(tape, options.pooled->keys, heads)}, .count = 1};
    pooled.values = view_of(tape, options.pooled->values, heads);
    pooled.key_count = options.pooled->values.shape()[1];
    pooled.window = 0;
    pooled.block = options.pooled->tokens;
    pooled.selection = options.pooled->selection.value_or(Selection{});
    const Index tokens = values.cache() == nullptr ? p.key_count : values.tokens();
    pooled.first_position = tokens - qs[1];
    pooled.first_column = p.columns;
    groups.all.front().columns = pooled.columns = p.columns + padded(pooled.key_count);
  }
  if (!options.key_mask.empty()) {
    auto* mask = tape.scratch_of<std::uint8_t>(static_cast<Index>(options.key_mask.size()));
    std::ranges::copy(options.key_mask, mask);
    groups.all.front().key_mask = mask;
  }
  AttentionProblem& tokens = groups.all.front();
  if (options.log_gates != nullptr)
    tokens.gate_sums = sums_of_gates(tape, tokens, view_of(tape, *options.log_gates, p.heads));
  take_tiles(tape, groups);
  return groups;
}

// Calls body(sequence, head, first query, queries) for all query tiles, in parallel.
template <class Body>
void for_query_tiles(const AttentionProblem& p, const Body& body) {
  const Index tiles = (p.length + kQueryTile - 1) / kQueryTile;
  const Index macs = std::min(kQueryTile, p.length) * p.macs_per_query();
  parallel_for(p.batch * p.heads * tiles, task_chunk(macs), [&](Index task) {
    const Index head = task / tiles, i = task % tiles * kQueryTile;
    body(head / p.heads, head % p.heads, i, std::min(kQueryTile, p.length - i));
  });
}

void add_stats(Tape& tape, const AttentionGroups& groups, AttentionStats& stats) {
  const AttentionProblem& p = groups.tokens();
  const Index rows = p.batch * p.heads * p.length;
  Real* const entropy = tape.scratch(rows);
  const std::size_t before = stats.weights.size(), pooled_before = stats.pooled_weights.size();
  const Index pooled = groups.count > 1 ? groups.all.back().key_count : 0;
  if (stats.keeps_weights) {
    stats.weights.resize(before + static_cast<std::size_t>(rows * p.key_count));
    stats.pooled_weights.resize(pooled_before + static_cast<std::size_t>(rows * pooled));
  }
  for_query_tiles(p, [&](Index b, Index h, Index i, Index count) {
    Real* const weights = stats.keeps_weights ? stats.weights.data() + before : nullptr;
    stats_tile(groups, b, h, i, count, entropy + p.row(b, h, i), weights,
               weights != nullptr ? stats.pooled_weights.data() + pooled_before : nullptr);
  });
  for (Index row = 0; row < rows; ++row) {
    if (std::isnan(entropy[row])) continue;  // the query sees no key
    stats.entropy_sum += static_cast<double>(entropy[row]);
    ++stats.rows;
  }
}

// Each task has all heads of its tokens, so that the sums over the heads have one order.
void find_picked_weights(const AttentionProblem& p) {
  if (p.selection.weights == nullptr) return;
  const Index tokens = p.tokens(), tiles = (tokens + kQueryTile - 1) / kQueryTile;
  const Index macs = std::min(kQueryTile, tokens) * p.call_heads() * p.macs_per_query();
  parallel_for(p.batch * tiles, task_chunk(macs), [&](Index task) {
    const Index t = task % tiles * kQueryTile;
    picked_weights_tile(p, task / tiles, t, std::min(kQueryTile, tokens - t));
  });
}

// Writes the gradient of head h's log gates. The score of query i and key j has the gates up to i
// less those up to j, so that a gate's gradient is the sum of `key_sums` of the tokens before it.
void put_gate_gradients(const AttentionProblem& p, Index b, Index h, const Real* key_sums,
                        const RowGradient& gates) {
  double before = 0;
  for (Index j = 0; j < p.key_count; ++j) {
    GradientSink{gates.at(b, j, h), gates.write}.put(
        0, p.masked(b, j) ? 0 : static_cast<Real>(before));
    before += static_cast<double>(key_sums[j]);
  }
}

// Backward: one task per sequence and part of it.
void backward(Tape& tape, AttentionGroups groups, const HeadRows<const Real>& out, const Real* dy,
              std::span<Use> uses, const std::optional<Var>& sinks) {
  const AttentionProblem& p = groups.tokens();
  const HeadRows<const Real> d_o{dy, out.batch_stride, out.row_stride, out.head_stride, out.width};
  take_sinks(tape, uses);
  // Heads are computed apart, but of stacked ones shares of the queries: one where one thread has
  // them all. Further ones write to copies, as heads that read the same head do.
  const Index parts = p.stacked == 1 ? p.heads : OnOneThread::active() ? 1 : p.stacked;
  for (Use& use : uses.subspan(1)) use.group = p.stacked > 1 ? parts : use.group;
  take_copies(tape, uses, parts);
  std::array<GroupGradient, 2> of_groups;
  std::size_t next = 1;
  for (std::size_t group = 0; group < groups.count; ++group) {
    for (std::size_t part = 0; part < groups.all[group].keys.count; ++part)
      of_groups[group].keys[part] = uses[next++].gradient;
    of_groups[group].values = uses[next++].gradient;
  }
  const RowGradient gates = p.gate_sums != nullptr ? uses[next].gradient : RowGradient{};
  const GradientSink dsinks = sinks ? tape.gradient_sink(*sinks) : GradientSink{};
  Real* const key_sums = gates ? tape.pool().take(p.batch * p.heads * p.key_count) : nullptr;
  // [B, H], or of stacked heads [B, parts, H]
  const Index sink_rows = p.stacked > 1 ? p.batch * parts : p.batch, all_heads = p.call_heads();
  Real* const of_heads = dsinks ? tape.pool().take(sink_rows * all_heads) : nullptr;
  const Index macs = p.length * p.heads / parts * p.macs_per_query();
  parallel_for(p.batch * parts, task_chunk(macs), [&](Index task) {
    const Index b = task / parts, part = task % parts;
    Real* const own_sums = gates ? key_sums + task * p.key_count : nullptr;
    backward_part(groups, out, d_o, b, part, parts, uses.front().gradient, of_groups,
                  {dsinks ? of_heads + task * p.stacked : nullptr, own_sums});
    if (gates) put_gate_gradients(p, b, part, own_sums, gates);
  });
  if (gates) tape.pool().give_back(key_sums);
  add_copies(tape, uses);
  if (!dsinks) return;
  for (Index row = 0; row < sink_rows; ++row)
    put({dsinks.data, row > 0 ? Write::add : dsinks.write}, 0,
        array(of_heads + row * all_heads, all_heads));
  tape.pool().give_back(of_heads);
}

// Returns true if one query per sequence reads rows in caches, each once and as it is stored.
bool is_newest(const Shape& q, std::span<const Rows> keys, const Rows& values,
               const AttentionOptions& options) {
  const auto in_cache = [](const Rows& rows) { return rows.cache() != nullptr; };
  const auto whole = [](const Rows& rows) { return rows.mixing() == nullptr; };
  const std::optional<PooledRows>& pooled = options.pooled;
  return q[1] == 1 && options.stats == nullptr && in_cache(values) &&
         std::ranges::all_of(keys, in_cache) &&
         (!options.selection || (whole(values) && std::ranges::all_of(keys, whole))) &&
         (options.log_gates == nullptr || in_cache(*options.log_gates)) &&
         (!pooled || (in_cache(pooled->keys) && in_cache(pooled->values)));
}

}  // namespace

// For each head, with f the factor of a row (scale and RowScale) and M the dropout multipliers:
//   y = (P o M) V,  P = softmax(f Q K^T) over the keys that a query sees
// Forget gates add to the scores and sinks join the softmax (see AttentionOptions). The gradients
// stand above PartBackward in attention_tiles.cpp.
Var attention(Var q, std::span<const Rows> keys, const Rows& values,
              const AttentionOptions& options) {
  Tape& tape = tape_of(q);
  check_attention(tape, q, keys, values, options);
  const Shape qs = tape.shape(q), ys = qs.with_last(values.width());
  if (is_newest(qs, keys, values, options)) {
    const Var y = tape.record(Op::attention, ys, {q});
    attend_newest(tape, q, keys, values, options, y);
    tape.finish(y, [](Tape&, const Real*) {});  // caches have no gradient
    return y;
  }
  const AttentionGroups groups = make_groups(tape, q, keys, values, options);
  Uses uses;
  std::size_t count = 0;
  const auto add_use = [&](const Rows& rows, Index group) {
    uses[count++] = {rows.x(), rows.first(), rows.width(), group};
  };
  add_use(q, 1);
  uses.front().stacked = groups.tokens().stacked;
  for (const Rows& part : keys) add_use(part, groups.tokens().keys.parts[count - 1].group);
  add_use(values, groups.tokens().values.group);
  if (options.pooled) {
    add_use(options.pooled->keys, groups.all.back().keys.parts.front().group);
    add_use(options.pooled->values, groups.all.back().values.group);
  }
  if (options.log_gates != nullptr) add_use(*options.log_gates, 1);
  const Var y =
      tape.record(Op::attention, ys, inputs_of(std::span(uses).first(count), options.sinks));
  const auto out = HeadRows<Real>::of(tape.value(y), groups.tokens().length, groups.tokens().heads,
                                      ys[3], 0, ys[3]);
  for_query_tiles(groups.tokens(), [&](Index b, Index h, Index i, Index rows) {
    forward_tile(groups, out, b, h, i, rows);
  });
  if (options.stats != nullptr) add_stats(tape, groups, *options.stats);
  for (const AttentionProblem& group : groups) find_picked_weights(group);
  tape.finish(y, [=, sinks = options.sinks](Tape& t, const Real* dy) {
    Uses own = uses;
    const HeadRows<const Real> o{out.data, out.batch_stride, out.row_stride, out.head_stride,
                                 out.width};
    backward(t, groups, o, dy, std::span(own).first(count), sinks);
  });
  return y;
}

}  // namespace headcount
