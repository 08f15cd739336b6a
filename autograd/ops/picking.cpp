#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

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
// side by side with a tile of the rows. Blocks are of one row if there are weights.
struct Picking {
  const Real* q;        // [B, T, I, D]
  const Real* keys;     // [B, R, 1, D]
  const Real* weights;  // [B, T, I], or null
  Index batch, length, heads, width, rows;
  Real scale;
  TopK sizes;
  PickedRows picked;    // its blocks and lists
  std::int32_t* lists;  // [B, T, lists, most]
  Real* scores;         // [B, T, lists, most]

  // Queries [t, t + queries) of sequence b.
  struct Piece {
    Index b, t, queries;
  };
  Index pieces() const { return (length + kQueryTile - 1) / kQueryTile; }  // of a sequence
  Piece piece(Index i) const {
    const Index t = i % pieces() * kQueryTile;
    return {i / pieces(), t, std::min(kQueryTile, length - t)};
  }
  Index blocks() const { return block_of(rows - 1) + 1; }
  Index block_of(Index row) const { return (row + picked.missing) / picked.block; }
  // List of row i of a piece's products, among all of the piece.
  Index list_of(Index i) const {
    return i / heads * picked.lists + i % heads * picked.lists / heads;
  }
  Index scores_size() const { return std::min(kQueryTile, length) * picked.lists * blocks(); }
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

  // Adds what a tile of products says to the scores [queries lists, blocks] of a piece.
  void add_scores(const Piece& piece, Index row, const ConstMatrix& a, Real* all) const {
    const Index head = (piece.b * length + piece.t) * heads;
    for (Index i = 0; i < a.rows; ++i) {
      const Real* const products = a.data + i * a.cols;
      Real* const to = all + list_of(i) * blocks();
      if (weights != nullptr) {
        if (i % heads == 0) array(to + row, a.cols).setZero();
        array(to + row, a.cols) += scale * weights[head + i] * array(products, a.cols).max(Real{0});
        continue;
      }
      const Index t = piece.t + i / heads, end = std::min(a.cols, end_row(t) - row);
      for (Index r = std::max<Index>(0, first_row(t) - row); r < end; ++r) {
        Real& greatest = to[block_of(row + r)];
        if (is_greater(scale * products[r], greatest)) greatest = scale * products[r];
      }
    }
  }

  // Picks for the queries of a piece.
  void pick(const Piece& piece, Real* products) const {
    Real *const all = products + products_size(), *const sorted = all + scores_size();
    std::fill(all, sorted, -std::numeric_limits<Real>::infinity());
    for_tiles(piece, products, [&](Index row, auto&, auto&, const ConstMatrix& a) {
      add_scores(piece, row, a, all);
    });
    for (Index i = 0; i < piece.queries * picked.lists; ++i)
      pick(piece.b, piece.t + i / picked.lists, i % picked.lists, all + i * blocks(), sorted);
  }

  // Picks blocks for a list of query t of sequence b by their scores, the query's own block too.
  void pick(Index b, Index t, Index n, Real* all, Real* sorted) const {
    const Index offset = picked.offset(b, t, length, n), most = picked.most;
    std::int32_t *list = lists + offset, *const list_end = list + most;
    Real* chosen = scores + offset;
    Index first = first_row(t), end = end_row(t);
    if (first < end) first = block_of(first), end = block_of(end - 1) + 1;
    Real own = 0;
    if (weights == nullptr && first < end)
      own = std::exchange(all[end - 1], std::numeric_limits<Real>::infinity());
    Real threshold = 0;         // score of the last row that is picked
    Index equal = end - first;  // rows with that score that are picked
    const bool reads_all = equal <= most;
    if (!reads_all) {
      Real* const last = sorted + most - 1;
      std::nth_element(sorted, last, std::copy(all + first, all + end, sorted), is_greater);
      threshold = *last;
      equal = 1 + std::count_if(sorted, last, [=](Real s) { return !is_greater(s, threshold); });
    }
    for (Index block = first; block < end && list < list_end; ++block) {
      const Real score = all[block];
      if (!reads_all && !is_greater(score, threshold) &&
          (is_greater(threshold, score) || equal-- <= 0))
        continue;
      *list++ = static_cast<std::int32_t>(block);
      *chosen++ = score;
    }
    if (weights == nullptr && first < end) chosen[-1] = own;
    std::fill(chosen, scores + offset + most, Real{0});
    std::fill(list, list_end, -1);
  }

  // Makes of products of query t and rows from `row` on the gradients of these: a block's score has
  // one greatest product.
  void put_gradients(Index t, Index row, const Real* greatest, Real* ds, ArrayMap a) const {
    for (Index r = row; r < row + a.size(); ++r) {
      const bool seen = r >= first_row(t) && r < end_row(t);
      const bool is_score = seen && scale * a[r - row] == greatest[block_of(r)];
      a[r - row] = is_score ? std::exchange(ds[block_of(r)], Real{0}) : Real{0};
    }
  }

  // Adds the gradients of a piece to those of which there are sinks.
  void add_gradients(const Piece& piece, const Real* dy, const GradientSink& dq,
                     const GradientSink& dkeys, const GradientSink& dweights,
                     Real* products) const {
    Real *const ds = products + products_size(), *const greatest = ds + scores_size();
    const Index query = piece.b * length + piece.t, head = query * heads;
    std::fill(ds, greatest, Real{0});
    for (Index i = 0; i < piece.queries * picked.lists * picked.most; ++i) {
      const Index at = query * picked.lists * picked.most + i;
      if (lists[at] < 0) continue;
      ds[i / picked.most * blocks() + lists[at]] = scale * dy[at];
      greatest[i / picked.most * blocks() + lists[at]] = scores[at];
    }
    for_tiles(piece, products, [&](Index row, auto& q_rows, auto& key_rows, const ConstMatrix& a) {
      for (Index i = 0; i < a.rows; ++i) {
        ArrayMap a_i = array(products + i * a.cols, a.cols);
        const Index list = list_of(i) * blocks();
        if (weights == nullptr) {
          put_gradients(piece.t + i / heads, row, greatest + list, ds + list, a_i);
          continue;
        }
        const ConstArrayMap ds_i(ds + list + row, a.cols);
        if (dweights) dweights.data[head + i] += (ds_i * a_i.max(Real{0})).sum();
        a_i = (a_i > 0).select(weights[head + i] * ds_i, Real{0});
      }
      if (dq) library_gemm(Matrix(dq.data + head * width, a.rows, width), a, key_rows, Write::add);
      if (dkeys)
        library_gemm(Matrix(dkeys.data + (piece.b * rows + row) * width, a.cols, width),
                     a.transpose(), q_rows, Write::add);
    });
  }
};

}  // namespace

// With a_h = q_h k and the score s = scale sum over h of w_h max(0, a_h) of a picked row:
//   dw_h = scale ds max(0, a_h),  da_h = scale w_h ds where a_h > 0,  dq = da k,  dk = da q
// Without weights s = scale a of the greatest a of a block, which alone has da = scale ds.
Picks pick_rows(Var q, Var keys, std::optional<Var> weights, Real scale, const TopK& sizes) {
  Tape& tape = tape_of(q);
  const Shape qs = tape.shape(q), ks = tape.shape(keys);
  require(qs.rank() == 4 && ks.rank() == 4 && ks[0] == qs[0] && ks[2] == 1 && ks[3] == qs[3] &&
              (!weights || tape.shape(*weights) == Shape{qs[0], qs[1], qs[2]}),
          Op::pick_rows,
          "wants q [B, T, I, D], keys [B, R, 1, D] and weights [B, T, I], got {}, {}", qs, ks);
  require(sizes.most > 0 && sizes.tokens > 0 && sizes.window >= 0, Op::pick_rows,
          "picks at least one row, of at least one token, got {} of {}", sizes.most, sizes.tokens);
  require(weights ? sizes.block == 1 && sizes.lists == 1
                  : sizes.tokens == 1 && sizes.block > 0 && qs[2] % sizes.lists == 0,
          Op::pick_rows, "without weights picks blocks of single tokens, for a divisor of {} heads",
          qs[2]);
  const Index batch = qs[0], length = qs[1], rows = ks[1], most = sizes.most, lists = sizes.lists;
  PickedRows picked{
      .most = most, .lists = lists, .block = sizes.block, .missing = sizes.first_row % sizes.block};
  std::vector<Var> inputs = {q, keys};
  if (weights) inputs.push_back(*weights);
  const Shape shape = lists == 1 ? Shape{batch, length, most} : Shape{batch, length, lists, most};
  const Var y = tape.record(Op::pick_rows, shape, inputs);
  const Count macs = Count(qs.rows()) * (qs[3] + (weights ? 1 : 0)) * rows;  // masked pairs count
  if (tape.dry(y, macs)) return {picked, y};
  count_macs(macs.value());
  auto* const numbers = tape.scratch_of<std::int32_t>(shape.size());
  picked.rows = numbers;
  const Picking p{.q = tape.value(q),
                  .keys = tape.value(keys),
                  .weights = weights ? tape.value(*weights) : nullptr,
                  .batch = batch,
                  .length = length,
                  .heads = qs[2],
                  .width = qs[3],
                  .rows = rows,
                  .scale = scale,
                  .sizes = sizes,
                  .picked = picked,
                  .lists = numbers,
                  .scores = tape.value(y)};
  const std::int64_t piece_macs = std::int64_t{p.products_size() / kRowTile} * p.width * rows;
  parallel_with_scratch(tape.pool(), batch * p.pieces(), piece_macs,
                        p.products_size() + p.scores_size() + p.blocks(),
                        [&](Index task, Real* products) { p.pick(p.piece(task), products); });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dq = sink_of_parts(t, q), dkeys = sink_of_parts(t, keys),
                       dweights = weights ? sink_of_parts(t, *weights) : GradientSink{};
    count_macs((macs * (1 + (dq ? 1 : 0) + (dkeys ? 1 : 0))).value());
    const auto add_sequence = [&](Index b, Real* memory) {
      for (Index i = 0; i < p.pieces(); ++i)
        p.add_gradients(p.piece(b * p.pieces() + i), dy, dq, dkeys, dweights, memory);
    };
    parallel_with_scratch(t.pool(), batch, 3 * p.pieces() * piece_macs,
                          p.products_size() + 2 * p.scores_size(), add_sequence);
  });
  return {picked, y};
}

// With p the weights of a query's rows divided by their sum, s the scores of these rows and n the
// queries:
//   y = sum of p_j (log p_j - s_j + logsumexp(s)) / n,  ds_j = (softmax(s)_j - p_j) / n
Var index_loss(const Picks& picks) {
  const Var scores = picks.scores;
  const PickedRows picked = picks.picked;
  Tape& tape = tape_of(scores);
  const Shape shape = tape.shape(scores);
  require(shape.rank() >= 3 && shape.last() == picked.most, Op::index_loss,
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
