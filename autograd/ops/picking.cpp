#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products/mac_counter.h"
#include "autograd/products/product_kernels.h"

namespace headcount {

namespace {

constexpr Index kQueryTile = 64, kRowTile = 64;

// An order of all numbers, NaN least.
constexpr auto is_greater = [](Real a, Real b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
};

// One call of `pick_rows`. A piece is some queries of a sequence: one product has all their heads
// side by side with a tile of the rows.
struct Picking {
  const Real* q;        // [B, T, I, D]
  const Real* keys;     // [B, R, 1, D]
  const Real* weights;  // [B, T, I]
  Index batch, length, heads, width, rows;
  Real scale;
  TopK sizes;
  std::int32_t* lists;  // [B, T, most]
  Real* scores;         // [B, T, most]

  // Queries [t, t + queries) of sequence b.
  struct Piece {
    Index b, t, queries;
  };
  Index pieces() const { return (length + kQueryTile - 1) / kQueryTile; }  // of a sequence
  Piece piece(Index i) const {
    const Index t = i % pieces() * kQueryTile;
    return {i / pieces(), t, std::min(kQueryTile, length - t)};
  }
  Index scores_size() const { return std::min(kQueryTile, length) * rows; }
  Index products_size() const { return std::min(kQueryTile, length) * heads * kRowTile; }

  // Query t sees rows [first_row(t), end_row(t)).
  Index end_row(Index t) const {
    const Index seen = (sizes.first_position + t + 1) / sizes.tokens - sizes.first_row;
    return std::clamp<Index>(seen, 0, rows);
  }
  Index first_row(Index t) const {
    return sizes.window > 0 ? std::max<Index>(0, end_row(t) - sizes.window) : 0;
  }
  // Calls body(row, q, keys, products) for tiles of rows that have all that the queries see, with
  // the product [queries I, tile] of `q` and `keys`.
  template <class Body>
  void for_tiles(const Piece& piece, Real* products, const Body& body) const {
    const ConstMatrix q_rows(q + (piece.b * length + piece.t) * heads * width,
                             piece.queries * heads, width);
    const Index end = end_row(piece.t + piece.queries - 1);
    for (Index row = first_row(piece.t); row < end; row += kRowTile) {
      const Index count = std::min(kRowTile, end - row);
      const ConstMatrix key_rows(keys + (piece.b * rows + row) * width, count, width);
      library_gemm(Matrix(products, q_rows.rows, count), q_rows, key_rows.transpose(),
                   Write::assign);
      body(row, q_rows, key_rows, ConstMatrix(products, q_rows.rows, count));
    }
  }

  // Picks rows of query t of sequence b by its scores [R].
  void pick(Index b, Index t, const Real* all, Real* sorted) const {
    const Index first = first_row(t), end = end_row(t), place = (b * length + t) * sizes.most;
    std::int32_t *list = lists + place, *const list_end = list + sizes.most;
    Real* chosen = scores + place;
    Real threshold = 0;         // score of the last row that is picked
    Index equal = end - first;  // rows with that score that are picked
    const bool reads_all = equal <= sizes.most;
    if (!reads_all) {
      Real* const last = sorted + sizes.most - 1;
      std::nth_element(sorted, last, std::copy(all + first, all + end, sorted), is_greater);
      threshold = *last;
      equal = 1 + std::count_if(sorted, last, [=](Real s) { return !is_greater(s, threshold); });
    }
    for (Index row = first; row < end && list < list_end; ++row) {
      const Real score = all[row];
      if (!reads_all && !is_greater(score, threshold) &&
          (is_greater(threshold, score) || equal-- <= 0))
        continue;
      *list++ = static_cast<std::int32_t>(row);
      *chosen++ = score;
    }
    std::fill(chosen, scores + place + sizes.most, Real{0});
    std::fill(list, list_end, -1);
  }
};

}  // namespace

// With a_h = q_h k and the score s = scale sum over h of w_h max(0, a_h) of a picked row:
//   dw_h = scale ds max(0, a_h),  da_h = scale w_h ds where a_h > 0,  dq = da k,  dk = da q
Picks pick_rows(Var q, Var keys, Var weights, Real scale, const TopK& sizes) {
  Tape& tape = tape_of(q);
  const Shape qs = tape.shape(q), ks = tape.shape(keys), ws = tape.shape(weights);
  require(qs.rank() == 4 && ks.rank() == 4 && ks[0] == qs[0] && ks[2] == 1 && ks[3] == qs[3] &&
              ws == Shape{qs[0], qs[1], qs[2]},
          Op::pick_rows,
          "wants q [B, T, I, D], keys [B, R, 1, D] and weights [B, T, I], got {}, {} and {}", qs,
          ks, ws);
  require(sizes.most > 0 && sizes.tokens > 0 && sizes.window >= 0, Op::pick_rows,
          "picks at least one row, of at least one token, got {} of {}", sizes.most, sizes.tokens);
  const Index batch = qs[0], length = qs[1], rows = ks[1], most = sizes.most;
  const Var y = tape.record(Op::pick_rows, {batch, length, most}, {q, keys, weights});
  const Count macs = Count(qs.rows()) * (qs[3] + 1) * rows;  // masked pairs count
  if (tape.dry(y, macs)) return {{nullptr, most}, y};
  count_macs(macs.value());
  const Picking p{.q = tape.value(q),
                  .keys = tape.value(keys),
                  .weights = tape.value(weights),
                  .batch = batch,
                  .length = length,
                  .heads = qs[2],
                  .width = qs[3],
                  .rows = rows,
                  .scale = scale,
                  .sizes = sizes,
                  .lists = tape.scratch_of<std::int32_t>(batch * length * most),
                  .scores = tape.value(y)};
  const std::int64_t piece_macs = std::int64_t{p.products_size() / kRowTile} * p.width * rows;
  const auto pick = [&](Index task, Real* products) {
    const Picking::Piece piece = p.piece(task);
    Real *const all = products + p.products_size(), *const sorted = all + p.scores_size();
    const Real* const w = p.weights + (piece.b * length + piece.t) * p.heads;
    p.for_tiles(piece, products, [&](Index row, auto&, auto&, const ConstMatrix& a) {
      for (Index i = 0; i < a.rows; ++i) {
        ArrayMap to = array(all + i / p.heads * rows + row, a.cols);
        if (i % p.heads == 0) to.setZero();
        to += scale * w[i] * array(a.data + i * a.cols, a.cols).max(Real{0});
      }
    });
    for (Index r = 0; r < piece.queries; ++r) p.pick(piece.b, piece.t + r, all + r * rows, sorted);
  };
  parallel_with_scratch(tape.pool(), batch * p.pieces(), piece_macs,
                        p.products_size() + p.scores_size() + rows, pick);
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dq = sink_of_parts(t, q), dkeys = sink_of_parts(t, keys),
                       dweights = sink_of_parts(t, weights);
    count_macs((macs * (1 + (dq ? 1 : 0) + (dkeys ? 1 : 0))).value());
    const auto add_piece = [&](const Picking::Piece& piece, Real* products) {
      Real* const ds = products + p.products_size();  // [queries, R]
      const Index query = piece.b * length + piece.t, head = query * p.heads;
      std::fill_n(ds, piece.queries * rows, Real{0});
      for (Index i = 0; i < piece.queries * most; ++i) {
        const std::int32_t row = p.lists[query * most + i];
        if (row >= 0) ds[i / most * rows + row] = scale * dy[query * most + i];
      }
      p.for_tiles(
          piece, products, [&](Index row, auto& q_rows, auto& key_rows, const ConstMatrix& a) {
            for (Index i = 0; i < a.rows; ++i) {
              ArrayMap a_i = array(products + i * a.cols, a.cols);
              const ConstArrayMap ds_i(ds + i / p.heads * rows + row, a.cols);
              if (dweights) dweights.data[head + i] += (ds_i * a_i.max(Real{0})).sum();
              a_i = (a_i > 0).select(p.weights[head + i] * ds_i, Real{0});
            }
            if (dq)
              library_gemm(Matrix(dq.data + head * p.width, a.rows, p.width), a, key_rows,
                           Write::add);
            if (dkeys)
              library_gemm(Matrix(dkeys.data + (piece.b * rows + row) * p.width, a.cols, p.width),
                           a.transpose(), q_rows, Write::add);
          });
    };
    const auto add_sequence = [&](Index b, Real* memory) {
      for (Index i = 0; i < p.pieces(); ++i) add_piece(p.piece(b * p.pieces() + i), memory);
    };
    parallel_with_scratch(t.pool(), batch, 3 * p.pieces() * piece_macs,
                          p.products_size() + p.scores_size(), add_sequence);
  });
  return {{p.lists, most}, y};
}

// With p the weights of a query's rows divided by their sum, s the scores of these rows and n the
// queries:
//   y = sum of p_j (log p_j - s_j + logsumexp(s)) / n,  ds_j = (softmax(s)_j - p_j) / n
Var index_loss(const Picks& picks) {
  const Var scores = picks.scores;
  const PickedRows picked = picks.picked;
  Tape& tape = tape_of(scores);
  const Shape shape = tape.shape(scores);
  require(shape.rank() == 3 && shape.last() == picked.most, Op::index_loss,
          "wants scores [B, T, {}], got {}", picked.most, shape);
  const Index queries = shape.rows(), most = picked.most;
  const Var y = tape.record(Op::index_loss, {}, {scores});
  if (tape.dry(y)) return y;
  const Real* const all_scores = tape.value(scores);
  Real* const differences = tape.scratch(queries * most);  // softmax(s) - p
  Real* const losses = tape.scratch(queries);
  parallel_for(queries, row_chunk(most), [=](Index i) {
    const std::int32_t* const list = picked.rows + i * most;
    const Index count = std::find(list, list + most, -1) - list;
    const ConstArrayMap weights = array(static_cast<const Real*>(picked.weights) + i * most, count);
    array(differences + i * most, most).setZero();
    losses[i] = 0;
    const Real sum = weights.sum();
    if (!(sum > 0)) return;
    const ConstArrayMap s = array(all_scores + i * most, count);
    const Real greatest = s.maxCoeff();
    const RowSoftmax softmax{greatest, 1 / (s - greatest).exp().sum()};
    for (Index j = 0; j < count; ++j) {
      const Real p = weights[j] / sum, log_softmax = softmax.log_weight(s[j]);
      if (p > 0) losses[i] += p * (std::log(p) - log_softmax);
      differences[i * most + j] = std::exp(log_softmax) - p;
    }
  });
  double total = 0;
  for (Index i = 0; i < queries; ++i) total += static_cast<double>(losses[i]);
  *tape.value(y) = static_cast<Real>(total / static_cast<double>(queries));
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const Real weight = *dy / static_cast<Real>(queries);
    if (const GradientSink ds = t.gradient_sink(scores))
      put(ds, 0, weight * array(static_cast<const Real*>(differences), queries * most));
  });
  return y;
}

}  // namespace headcount
