#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

constexpr Index kQueryTile = 64, kKeyTile = 64;

// An order of all numbers, NaN least.
constexpr auto is_greater = [](Real a, Real b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
};

// Inputs of one call of `index_scores`. One product has all heads of the queries of a tile, whose
// rows lie side by side.
struct Scoring {
  const Real* q;        // [B, T, I, D]
  const Real* keys;     // [B, R, 1, D]
  const Real* weights;  // [B, T, I]
  Index batch, length, heads, width, rows;
  Real scale;

  struct Tile {
    Index b, t, queries, row, count;
  };
  Index row_tiles() const { return (rows + kKeyTile - 1) / kKeyTile; }
  Index tiles() const { return (length + kQueryTile - 1) / kQueryTile * row_tiles(); }
  Tile tile(Index b, Index i) const {
    const Index t = i / row_tiles() * kQueryTile, row = i % row_tiles() * kKeyTile;
    return {b, t, std::min(kQueryTile, length - t), row, std::min(kKeyTile, rows - row)};
  }
  Index first_head(const Tile& tile) const { return (tile.b * length + tile.t) * heads; }
  ConstMatrix q_rows(const Tile& tile) const {
    return {q + first_head(tile) * width, tile.queries * heads, width};
  }
  ConstMatrix key_rows(const Tile& tile) const {
    return {keys + (tile.b * rows + tile.row) * width, tile.count, width};
  }
  Index product_size() const { return std::min(kQueryTile, length) * heads * kKeyTile; }
  Index tile_macs() const { return product_size() * width; }
};

// Adds the gradients of one tile's scores `dy`.
void add_gradients(const Scoring& s, const Scoring::Tile& tile, const Real* dy, Real* products,
                   const GradientSink& dq, const GradientSink& dkeys,
                   const GradientSink& dweights) {
  const Index all = tile.queries * s.heads, first = s.first_head(tile);
  gemm(Matrix(products, all, tile.count), s.q_rows(tile), s.key_rows(tile).transpose());
  for (Index i = 0; i < all; ++i) {
    ArrayMap a = array(products + i * tile.count, tile.count);
    const auto ds = s.scale * array(dy + (first + i) / s.heads * s.rows + tile.row, tile.count);
    if (dweights) dweights.data[first + i] += (ds * a.max(Real{0})).sum();
    a = (a > 0).select(s.weights[first + i] * ds, Real{0});
  }
  const ConstMatrix da(products, all, tile.count);
  if (dq) gemm(Matrix(dq.data + first * s.width, all, s.width), da, s.key_rows(tile), Write::add);
  if (dkeys) {
    Real* const to = dkeys.data + (tile.b * s.rows + tile.row) * s.width;
    gemm(Matrix(to, tile.count, s.width), da.transpose(), s.q_rows(tile), Write::add);
  }
}

}  // namespace

// With a_h = q_h k:
//   y = scale sum over h of w_h max(0, a_h)
//   dw_h = scale dy max(0, a_h),  da_h = scale w_h dy where a_h > 0,  dq = da k,  dk = da q
Var index_scores(Var q, Var keys, Var weights, Real scale) {
  Tape& tape = tape_of(q);
  const Shape qs = tape.shape(q), ks = tape.shape(keys), ws = tape.shape(weights);
  require(qs.rank() == 4 && ks.rank() == 4 && ks[0] == qs[0] && ks[2] == 1 && ks[3] == qs[3] &&
              ws == Shape{qs[0], qs[1], qs[2]},
          Op::index_scores, "wants q [B, T, I, D], keys [B, R, 1, D] and weights [B, T, I], got ",
          qs, ", ", ks, " and ", ws);
  const Scoring s{.q = tape.value(q),
                  .keys = tape.value(keys),
                  .weights = tape.value(weights),
                  .batch = qs[0],
                  .length = qs[1],
                  .heads = qs[2],
                  .width = qs[3],
                  .rows = ks[1],
                  .scale = scale};
  const Var y = tape.record(Op::index_scores, {s.batch, s.length, s.rows}, {q, keys, weights});
  const Count macs = Count(s.batch * s.length * s.heads) * (s.width + 1) * s.rows;
  if (tape.dry(y, macs)) return y;
  count_macs(s.batch * s.length * s.heads * s.rows);  // beside those of the products
  Real* const yv = tape.value(y);
  const auto score = [&](Index task, Real* products) {
    const Scoring::Tile tile = s.tile(task / s.tiles(), task % s.tiles());
    const Index first = s.first_head(tile);
    gemm(Matrix(products, tile.queries * s.heads, tile.count), s.q_rows(tile),
         s.key_rows(tile).transpose());
    for (Index r = 0; r < tile.queries; ++r) {
      ArrayMap to = array(yv + (first / s.heads + r) * s.rows + tile.row, tile.count);
      to.setZero();
      for (Index i = r * s.heads; i < (r + 1) * s.heads; ++i)
        to += scale * s.weights[first + i] *
              array(products + i * tile.count, tile.count).max(Real{0});
    }
  };
  parallel_with_scratch(tape.pool(), s.batch * s.tiles(), s.tile_macs(), s.product_size(), score);
  tape.finish(y, [=](Tape& t, const Real* dy) {
    // Inputs may be one tensor, which is zero before the first gradient is added to it.
    const auto cleared = [&](Var input) {
      const GradientSink sink = t.gradient_sink(input);
      if (sink && sink.write == Write::assign)
        std::fill_n(sink.data, t.shape(input).size(), Real{0});
      return sink;
    };
    const GradientSink dq = cleared(q), dkeys = cleared(keys), dweights = cleared(weights);
    const auto add_all = [&](Index b, Real* products) {
      for (Index i = 0; i < s.tiles(); ++i)
        add_gradients(s, s.tile(b, i), dy, products, dq, dkeys, dweights);
    };
    parallel_with_scratch(t.pool(), s.batch, s.tiles() * s.tile_macs(), s.product_size(), add_all);
  });
  return y;
}

PickedRows top_k(Var scores, const TopK& options) {
  Tape& tape = tape_of(scores);
  const Shape shape = tape.shape(scores);
  const Index most = options.most;
  if (shape.rank() != 3 || most <= 0 || options.tokens <= 0 || options.window < 0) {
    throw ShapeError("top_k: picks at least one row, of at least one token, by scores [B, T, R], ",
                     "got ", most, " of ", options.tokens, " by ", shape);
  }
  if (tape.is_dry()) return {nullptr, most};
  const Index queries = shape.rows(), rows = shape.last();
  const Real* const all_scores = tape.value(scores);
  auto* const lists = tape.scratch_of<std::int32_t>(queries * most);
  const auto pick = [=](Index i, Real* sorted) {
    const Real* const own = all_scores + i * rows;
    const Index position = options.first_position + i % shape[1];
    const Index end = std::min(rows, (position + 1) / options.tokens - options.first_row);
    const Index first = options.window > 0 ? std::max<Index>(0, end - options.window) : 0;
    std::int32_t *list = lists + i * most, *const list_end = list + most;
    Real threshold = 0;         // score of the last row that is picked
    Index equal = end - first;  // rows with that score that are picked
    const bool all = equal <= most;
    if (!all) {
      Real* const last = sorted + most - 1;
      std::nth_element(sorted, last, std::copy(own + first, own + end, sorted), is_greater);
      threshold = *last;
      equal = 1 + std::count_if(sorted, last, [=](Real s) { return !is_greater(s, threshold); });
    }
    for (Index row = first; row < end && list < list_end; ++row) {
      const Real score = own[row];
      if (all || is_greater(score, threshold) || (!is_greater(threshold, score) && equal-- > 0))
        *list++ = static_cast<std::int32_t>(row);
    }
    std::fill(list, list_end, -1);
  };
  parallel_with_scratch(tape.pool(), queries, 8 * rows, rows, pick);  // some eight steps a row
  return {lists, most};
}

// With p the weights of a query's rows divided by their sum, s the scores of these rows and n the
// queries:
//   y = sum of p_j (log p_j - s_j + logsumexp(s)) / n,  ds_j = (softmax(s)_j - p_j) / n
Var index_loss(Var scores, const PickedRows& picked) {
  Tape& tape = tape_of(scores);
  const Shape shape = tape.shape(scores);
  require(shape.rank() == 3, Op::index_loss, "wants scores [B, T, R], got ", shape);
  const Index queries = shape.rows(), rows = shape.last(), most = picked.most;
  const Var y = tape.record(Op::index_loss, {}, {scores});
  if (tape.dry(y)) return y;
  const Real* const all_scores = tape.value(scores);
  Real* const differences = tape.scratch(queries * most);  // softmax(s) - p
  Real* const losses = tape.scratch(queries);
  const auto rows_of = [=](Index i) {
    const std::int32_t* const list = picked.rows + i * most;
    return std::span(list, std::find(list, list + most, -1));
  };
  parallel_for(queries, row_chunk(most), [=](Index i) {
    const std::span<const std::int32_t> list = rows_of(i);
    const ConstArrayMap weights =
        array(static_cast<const Real*>(picked.weights) + i * most, std::ssize(list));
    ArrayMap s = array(differences + i * most, std::ssize(list));
    for (Index j = 0; j < s.size(); ++j) s[j] = all_scores[i * rows + list[j]];
    const Real sum = weights.sum();
    losses[i] = 0;
    if (!(sum > 0)) return s.setZero(), void();
    const Real greatest = s.maxCoeff();
    const RowSoftmax softmax{greatest, 1 / (s - greatest).exp().sum()};
    for (Index j = 0; j < s.size(); ++j) {
      const Real p = weights[j] / sum, log_softmax = softmax.log_weight(s[j]);
      if (p > 0) losses[i] += p * (std::log(p) - log_softmax);
      s[j] = std::exp(log_softmax) - p;
    }
  });
  double total = 0;
  for (Index i = 0; i < queries; ++i) total += static_cast<double>(losses[i]);
  *tape.value(y) = static_cast<Real>(total / static_cast<double>(queries));
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink ds = t.gradient_sink(scores);
    if (!ds) return;
    const Real weight = *dy / static_cast<Real>(queries);
    parallel_for(queries, row_chunk(rows), [=](Index i) {
      if (ds.write == Write::assign) std::fill_n(ds.data + i * rows, rows, Real{0});
      const Real* difference = differences + i * most;
      for (const std::int32_t row : rows_of(i)) ds.data[i * rows + row] += weight * *difference++;
    });
  });
  return y;
}

}  // namespace headcount
