#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

constexpr Index kQueryTile = 64, kKeyTile = 64;
constexpr Index kProductRows = 256;  // queries times heads in one product

// A power of two, so that chunks of a prefill begin where tiles do.
Index queries_per_product(Index heads) {
  const Index most = std::clamp<Index>(kProductRows / heads, 1, kQueryTile);
  return static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(most)));
}

// One call of `pick_rows`. The heads of a query lie side by side, so that one product has those of
// several queries.
struct Picking {
  Index batch, length, heads, width;
  Index key_count;
  const Real* q;        // [B, T, I, D]
  const Real* keys;     // [B, R, 1, D]
  const Real* weights;  // [B, T, I]
  PickOptions options;
  Index first_row;           // of the text's rows, the one that is the first here
  Index tile;                // queries of one product
  Real* scratch = nullptr;   // for each thread
  Index scratch_stride = 0;  // numbers of scratch per thread; 0: there is one thread

  Index tiles() const { return (length + tile - 1) / tile; }
  Index queries(Index i) const { return std::min(tile, length - i); }
  // Query i sees rows [first_seen(i), seen(i)).
  Index seen(Index i) const {
    return std::min(key_count, (options.first_position + i + 1) / options.tokens - first_row);
  }
  Index first_seen(Index i) const {
    return options.window > 0 ? std::max<Index>(0, seen(i) - options.window) : 0;
  }
  Index first_tile(Index i) const { return first_seen(i) / kKeyTile * kKeyTile; }
  Index picked(Index i) const { return std::min(options.most, seen(i) - first_seen(i)); }
  Index row(Index b, Index i) const { return b * length + i; }
  Index macs_per_query() const { return heads * key_count * width; }
  Real* own_scratch() const { return scratch + this_thread() * scratch_stride; }

  void take_scratch(BufferPool& pool, Index size) {
    const bool one = OnOneThread::active();
    scratch = pool.take(one ? size : threads() * size);
    scratch_stride = one ? 0 : size;
  }
  Index product_size() const { return tile * heads * kKeyTile; }

  ConstMatrix q_rows(Index b, Index i) const {
    return {q + row(b, i) * heads * width, queries(i) * heads, width};
  }
  ConstMatrix key_rows(Index b, Index j, Index cols) const {
    return {keys + (b * key_count + j) * width, cols, width};
  }
  // Writes the products of all heads of queries [i, i + queries(i)) with keys [j, j + cols), [rows,
  // cols].
  void products(Index b, Index i, Index j, Index cols, Real* out) const {
    gemm(Matrix(out, queries(i) * heads, cols), q_rows(b, i), key_rows(b, j, cols).transpose());
  }
  // Writes scores of these queries, whose rows are `stride` apart.
  void scores(Index b, Index i, Index j, Index cols, Real* out, Index stride, Real* room) const {
    products(b, i, j, cols, room);
    for (Index r = 0; r < queries(i); ++r) {
      ArrayMap to = array(out + r * stride, cols);
      to.setZero();
      for (Index h = 0; h < heads; ++h) {
        const Real weight = options.scale * weights[row(b, i + r) * heads + h];
        to += weight * array(room + (r * heads + h) * cols, cols).max(Real{0});
      }
    }
    count_macs(queries(i) * heads * cols);
  }
};

using ScoreKey = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;

// Integer that is ordered as the number is.
ScoreKey key_of(Real score) {
  constexpr ScoreKey kSign = ScoreKey{1} << (8 * sizeof(ScoreKey) - 1);
  const auto bits = std::bit_cast<ScoreKey>(score + Real{0});  // one zero of the two
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// Greatest key that at least `most` of the keys reach, or a lower one that exactly `most` reach. It
// is built from its highest bit on.
ScoreKey find_threshold(const ScoreKey* keys, Index count, Index most) {
  const auto [least, greatest] = std::minmax_element(keys, keys + count);
  const auto differing = static_cast<int>(std::bit_width(*least ^ *greatest));
  ScoreKey threshold = *least;
  for (int bit = 0; bit < differing; ++bit) threshold &= ~(ScoreKey{1} << bit);
  for (int bit = differing; bit-- > 0;) {
    const ScoreKey candidate = threshold | ScoreKey{1} << bit;
    std::int32_t reach = 0;
    for (Index c = 0; c < count; ++c) reach += keys[c] >= candidate ? 1 : 0;
    if (reach < most) continue;
    threshold = candidate;
    if (reach == most) break;
  }
  return threshold;
}

// Writes the rows that query i picks in ascending order, and their scores. `scores` are those of
// all rows; `keys` is scratch for as many.
void pick_best(const Picking& p, Index i, const Real* scores, ScoreKey* keys, std::int32_t* rows,
               Real* kept) {
  const Index first = p.first_seen(i), end = p.seen(i), most = p.options.most;
  Index count = 0;
  const auto take = [&](Index c) {
    rows[count] = static_cast<std::int32_t>(c);
    kept[count++] = scores[c];
  };
  if (end - first <= most) {
    for (Index c = first; c < end; ++c) take(c);
  } else {
    for (Index c = first; c < end; ++c) keys[c] = key_of(scores[c]);
    const ScoreKey threshold = find_threshold(keys + first, end - first, most);
    Index equal =
        most - std::count_if(keys + first, keys + end, [=](ScoreKey k) { return k > threshold; });
    for (Index c = first; c < end; ++c) {
      if (keys[c] > threshold || (keys[c] == threshold && equal-- > 0)) take(c);
    }
  }
  std::fill(rows + count, rows + most, -1);
  std::fill(kept + count, kept + most, Real{0});
}

// Picks tile by tile: the keys, then the queries of one are shared out over the threads.
void pick(Tape& tape, const Picking& p, std::int32_t* rows, Real* kept) {
  Real* const scores = tape.pool().take(p.tile * p.key_count);
  for (Index task = 0; task < p.batch * p.tiles(); ++task) {
    const Index b = task / p.tiles(), i = task % p.tiles() * p.tile, queries = p.queries(i);
    const Index first = p.first_tile(i), end = p.seen(i + queries - 1);
    parallel_for((end - first + kKeyTile - 1) / kKeyTile,
                 task_chunk(queries * kKeyTile * p.heads * p.width), [&](Index key_tile) {
                   const Index j = first + key_tile * kKeyTile;
                   p.scores(b, i, j, std::min(kKeyTile, end - j), scores + j, p.key_count,
                            p.own_scratch());
                 });
    parallel_for(queries, row_chunk(p.key_count), [&](Index r) {
      const Index place = p.row(b, i + r) * p.options.most, at = r * p.key_count;
      pick_best(p, i + r, scores + at, reinterpret_cast<ScoreKey*>(p.own_scratch()), rows + place,
                kept + place);
    });
  }
  tape.pool().give_back(scores);
}

// Destinations of gradients; those of the keys are added.
struct PickSinks {
  GradientSink q, weights, keys;
};

// Gradients of queries [i, i + queries(i)), of which the picked rows' scores have the gradients
// `dscores`. With a = q k and s = scale times the sum over h of w_h max(0, a_h):
//   dw_h = scale ds max(0, a_h),  da_h = scale w_h ds where a_h > 0,  dq = da k,  dk = da q
void pick_gradients(const Picking& p, const std::int32_t* rows, const Real* dscores, Index b,
                    Index i, const PickSinks& sinks) {
  const Index queries = p.queries(i), all = queries * p.heads, most = p.options.most;
  Real* const products = p.own_scratch();
  Real* const dw = products + p.product_size();
  std::fill_n(dw, all, Real{0});
  alignas(kAlignment) Real ds[kKeyTile];
  const GradientSink& dq = sinks.q;
  const Matrix of_q(dq.data + p.row(b, i) * p.heads * p.width, all, p.width);
  bool written = false;
  for (Index j = p.first_tile(i), end = p.seen(i + queries - 1); j < end; j += kKeyTile) {
    const Index cols = std::min(kKeyTile, end - j);
    p.products(b, i, j, cols, products);
    for (Index r = 0; r < queries; ++r) {
      const Index place = p.row(b, i + r) * most, count = p.picked(i + r);
      const std::int32_t* const list = rows + place;
      std::fill_n(ds, cols, Real{0});
      for (auto at = std::lower_bound(list, list + count, j); at < list + count && *at < j + cols;
           ++at)
        ds[*at - j] = p.options.scale * dscores[place + (at - list)];
      const ConstArrayMap of_scores = array(static_cast<const Real*>(ds), cols);
      for (Index h = 0; h < p.heads; ++h) {
        ArrayMap a = array(products + (r * p.heads + h) * cols, cols);
        dw[r * p.heads + h] += (of_scores * a.max(Real{0})).sum();
        a = (a > 0).select(of_scores * p.weights[p.row(b, i + r) * p.heads + h], Real{0});
      }
    }
    const ConstMatrix da(products, all, cols);
    if (dq) gemm(of_q, da, p.key_rows(b, j, cols), written ? Write::add : dq.write);
    if (sinks.keys)
      gemm(Matrix(sinks.keys.data + (b * p.key_count + j) * p.width, cols, p.width), da.transpose(),
           p.q_rows(b, i), Write::add);
    written = true;
  }
  if (dq && !written && dq.write == Write::assign) std::fill_n(of_q.data, all * p.width, Real{0});
  if (sinks.weights)
    put(sinks.weights, p.row(b, i) * p.heads, array(static_cast<const Real*>(dw), all));
}

void pick_backward(Tape& tape, Picking p, const std::int32_t* rows, const Real* dscores,
                   const PickSinks& sinks) {
  p.take_scratch(tape.pool(), p.product_size() + p.tile * p.heads);
  const Index size = p.batch * p.key_count * p.width;
  if (sinks.keys && sinks.keys.write == Write::assign) std::fill_n(sinks.keys.data, size, Real{0});
  parallel_for(p.batch, task_chunk(p.length * p.macs_per_query()), [&](Index b) {
    for (Index tile = 0; tile < p.tiles(); ++tile)
      pick_gradients(p, rows, dscores, b, tile * p.tile, sinks);
  });
  tape.pool().give_back(p.scratch);
}

void check(Tape& tape, Var q, const Rows& keys, Var weights, const PickOptions& options) {
  const Shape qs = tape.shape(q), ks = keys.shape(), ws = tape.shape(weights);
  require(qs.rank() == 4 && ks.rank() == 4 && ks[0] == qs[0] && ks[2] == 1 && ks[3] == qs[3] &&
              ws == Shape{qs[0], qs[1], qs[2]},
          Op::pick_rows, "wants q [B, T, I, D], keys [B, R, 1, D] and weights [B, T, I], got ", qs,
          ", ", ks, " and ", ws);
  require(keys.cache() != nullptr || keys.width() == tape.shape(keys.x()).last(), Op::pick_rows,
          "wants all columns of the keys");
  require(
      options.most > 0 && options.tokens > 0 && options.first_position >= 0 && options.window >= 0,
      Op::pick_rows, "picks at least one row, of at least one token, got ", options.most, " of ",
      options.tokens);
  const bool overwritten = keys.cache() != nullptr && keys.cache()->overwritten(keys.tokens());
  require(!overwritten || qs[1] == 1, Op::pick_rows,
          "wants one query where the first rows of a cache were overwritten, got ", qs[1]);
  require(keys.cache() == nullptr || (!tape.needs_gradient(q) && !tape.needs_gradient(weights)),
          Op::pick_rows, "rows of a cache have no gradient; use a tape that computes none");
}

}  // namespace

// For each query t, the rows r with the greatest scores, and the scores:
//   y[t, n] = scale sum over h of weights[t, h] max(0, q[t, h] k[r]) of the n-th picked row r
// The gradients stand above pick_gradients.
Picks pick_rows(Var q, const Rows& keys, Var weights, const PickOptions& options) {
  Tape& tape = tape_of(q);
  check(tape, q, keys, weights, options);
  const Shape shape = tape.shape(q);
  const Var all_keys = read_rows(tape, keys);
  Picking p{.batch = shape[0],
            .length = shape[1],
            .heads = shape[2],
            .width = shape[3],
            .key_count = keys.shape()[1],
            .q = tape.value(q),
            .keys = tape.value(all_keys),
            .weights = tape.value(weights),
            .options = options,
            .first_row = keys.cache() != nullptr ? keys.cache()->first_token() : 0,
            .tile = queries_per_product(shape[2])};
  const Shape scores = {p.batch, p.length, options.most};
  const bool cached = keys.cache() != nullptr;
  const Var y = cached ? tape.record(Op::pick_rows, scores, {q, weights})
                       : tape.record(Op::pick_rows, scores, {q, weights, keys.x()});
  const Index seen = options.window > 0 ? std::min(options.window, p.key_count) : p.key_count;
  if (tape.dry(y, Count(p.batch * p.length * p.heads) * (p.width + 1) * seen))
    return {y, {nullptr, options.most}};
  auto* const rows = tape.scratch_of<std::int32_t>(p.batch * p.length * options.most);
  p.take_scratch(tape.pool(), std::max(p.product_size(), p.key_count));
  pick(tape, p, rows, tape.value(y));
  tape.pool().give_back(p.scratch);
  tape.finish(y, [=, keys_x = keys.x()](Tape& t, const Real* dy) {
    pick_backward(t, p, rows, dy,
                  {.q = t.gradient_sink(q),
                   .weights = t.gradient_sink(weights),
                   .keys = cached ? GradientSink{} : t.gradient_sink(keys_x)});
  });
  return {y, {rows, options.most}};
}

// With p the weights of a query's rows divided by their sum, s the scores and n the queries:
//   y = sum of p_j (log p_j - s_j + logsumexp(s)) / n,  ds_j = (softmax(s)_j - p_j) / n
Var index_loss(const Picks& picks, const Real* picked_weights) {
  Tape& tape = tape_of(picks.scores);
  const Shape shape = tape.shape(picks.scores);
  require(shape.rank() == 3 && shape.last() == picks.rows.most, Op::index_loss,
          "wants the scores [B, T, most] of picked rows, got ", shape);
  const Index queries = shape.rows(), most = picks.rows.most;
  const Var y = tape.record(Op::index_loss, {}, {picks.scores});
  if (tape.dry(y)) return y;
  const Real* const scores = tape.value(picks.scores);
  Real* const differences = tape.scratch(queries * most);  // softmax(s) - p
  Real* const losses = tape.scratch(queries);
  parallel_for(queries, row_chunk(most), [=, rows = picks.rows.rows](Index i) {
    const std::int32_t* const list = rows + i * most;
    const Index count = std::find(list, list + most, -1) - list;
    const ConstArrayMap s = array(scores + i * most, count);
    const ConstArrayMap weights = array(picked_weights + i * most, count);
    const Real sum = count > 0 ? weights.sum() : Real{0};
    losses[i] = 0;
    std::fill_n(differences + i * most, most, Real{0});
    if (!(sum > 0)) return;
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
  tape.finish(y, [=, of_scores = picks.scores](Tape& t, const Real* dy) {
    const GradientSink ds = t.gradient_sink(of_scores);
    if (!ds) return;
    const Real weight = *dy / static_cast<Real>(queries);
    parallel_for(queries, row_chunk(most), [=](Index i) {
      put(ds, i * most, weight * array(static_cast<const Real*>(differences) + i * most, most));
    });
  });
  return y;
}

}  // namespace headcount
