#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

constexpr Index kQueryTile = 64;
constexpr Index kKeyTile = 64;
constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

using Tile = Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

// exp(x), and exactly 0 for -infinity. Eigen's vectorised exp ends at the smallest numbers above 0
// instead: a query that sees no key would seem to see all of them, and such numbers are slow.
template <class Scores>
auto exp_or_zero(const Scores& x) {
  return (x.exp() - std::numeric_limits<Real>::min()).max(Real{0});
}

// A tensor [B, T, heads, width] read one head at a time.
template <class Number>
struct Heads {
  Number* data;
  Index length, heads, width;

  Index stride() const { return heads * width; }
  Number* at(Index batch, Index position, Index head) const {
    return data + ((batch * length + position) * heads + head) * width;
  }
};

ConstMatrix rows_of(const Heads<const Real>& x, Index batch, Index head, Index begin, Index count) {
  return {x.at(batch, begin, head), count, x.width, x.stride()};
}

// One attention problem: what forward and backward share. Indices: b batch, h query head, g
// key/value head, i query, j key.
struct Problem {
  Heads<const Real> q, k, v;
  Index batch, group;  // group: query heads per key/value head
  Real scale;
  bool causal;
  Index window;
  RowScale row_scale;
  Dropout dropout;
  const std::uint8_t* key_mask;  // [B, S] or null
  Real* logsumexp;               // [B, H, T]
  Real* row_factor;              // [B, H, T]: the scale times the row's own
  Real* entropy;                 // [B, H, T]: of the weights before dropout; or null

  Index row(Index b, Index h, Index i) const { return (b * q.heads + h) * q.length + i; }
  bool drops() const { return dropout.threshold > 0; }

  // Keys [first_key(i), end_key(i)) are the ones that query i may see, mask aside.
  Index end_key(Index i) const { return causal ? k.length - q.length + i + 1 : k.length; }
  Index first_key(Index i) const {
    return window > 0 ? std::max<Index>(0, end_key(i) - window) : 0;
  }

  // Calls body(j) for the key tiles that queries [begin, end) see.
  template <class Body>
  void for_key_tiles(Index begin, Index end, const Body& body) const {
    const Index last = end_key(end - 1);
    for (Index j = first_key(begin) / kKeyTile * kKeyTile; j < last; j += kKeyTile) body(j);
  }

  // s = q k^T for a tile, unscaled, with zeros where a key is hidden; then scaled with -infinity
  // there.
  void raw_scores(Tile& s, Index b, Index h, Index i, Index j) const {
    multiply(Matrix(s.data(), s.rows(), s.cols()), rows_of(q, b, h, i, s.rows()),
             rows_of(k, b, h / group, j, s.cols()).transpose());
  }
  template <class Body>
  void for_hidden(const Tile& s, Index b, Index i, Index j, const Body& body) const {
    for (Index r = 0; r < s.rows(); ++r) {
      const Index first = std::clamp<Index>(first_key(i + r) - j, 0, s.cols());
      const Index last = std::clamp<Index>(end_key(i + r) - j, 0, s.cols());
      for (Index c = 0; c < first; ++c) body(r, c);
      for (Index c = last; c < s.cols(); ++c) body(r, c);
      if (key_mask == nullptr) continue;
      for (Index c = first; c < last; ++c) {
        if (key_mask[b * k.length + j + c] == 0) body(r, c);
      }
    }
  }
  void scores(Tile& s, Index b, Index h, Index i, Index j) const {
    raw_scores(s, b, h, i, j);
    if (row_scale == RowScale::one) {
      s *= scale;
    } else {
      s.colwise() *=
          Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, 1>>(row_factor + row(b, h, i), s.rows());
    }
    for_hidden(s, b, i, j, [&](Index r, Index c) { s(r, c) = -kInfinity; });
  }

  // Multiplies p by the dropout multipliers of its elements.
  void drop(Tile& p, Index b, Index h, Index i, Index j) const {
    const Index row_length = (k.length + 7) / 8 * 8;
    alignas(kAlignment) Real factors[kKeyTile];
    for (Index r = 0; r < p.rows(); ++r) {
      dropout.multipliers(static_cast<std::uint64_t>(row(b, h, i + r) * row_length + j), p.cols(),
                          factors);
      p.row(r) *= array(factors, p.cols()).transpose();
    }
  }
};

// Memory of one thread for one tile of a Problem.
struct TileMemory {
  alignas(kAlignment) Real data[kQueryTile * kKeyTile];
  Tile tile(Index rows, Index cols) { return {data, rows, cols}; }
};

// Fills row_factor for queries [i, i + rows) where it depends on the row.
void find_row_factors(const Problem& p, Index b, Index h, Index i, Index rows, TileMemory& memory) {
  Real* factor = p.row_factor + p.row(b, h, i);
  std::fill_n(factor, rows, Real{0});
  p.for_key_tiles(i, i + rows, [&](Index j) {
    Tile s = memory.tile(rows, std::min(kKeyTile, p.k.length - j));
    if (p.row_scale == RowScale::inverse_norm) {
      p.raw_scores(s, b, h, i, j);
    } else {
      s.setOnes();
    }
    p.for_hidden(s, b, i, j, [&](Index r, Index c) { s(r, c) = 0; });
    for (Index r = 0; r < rows; ++r) factor[r] += s.row(r).square().sum();
  });
  for (Index r = 0; r < rows; ++r) {
    factor[r] = factor[r] > 0 ? p.scale / std::sqrt(factor[r]) : Real{0};
  }
}

// moment = sum of e^(s - base) (s - base) over the keys so far, moved to a new base and with a row
// of scores added; the row's entropy is log(total) - moment / total.
template <class Row>
void add_moment(const Row& scores, Real base, Real shrink, Real old_most, Real total,
                Real& moment) {
  if (shrink > 0) moment = shrink * (moment + (old_most - base) * total);
  for (Index c = 0; c < scores.size(); ++c) {
    const Real s = scores(c) - base;
    if (s > -kInfinity) moment += std::exp(s) * s;
  }
}

// Output rows [i, i + rows) of head h: a running maximum m and sum l of each row over the key
// tiles; out is rescaled whenever m grows.
void forward_tile(const Problem& p, const Heads<Real>& out, Index b, Index h, Index i, Index rows) {
  TileMemory memory;
  if (p.row_scale != RowScale::one) find_row_factors(p, b, h, i, rows, memory);
  Real most[kQueryTile], total[kQueryTile], moment[kQueryTile];
  std::fill_n(most, rows, -kInfinity);
  std::fill_n(total, rows, Real{0});
  std::fill_n(moment, rows, Real{0});
  const Matrix o(out.at(b, i, h), rows, out.width, out.stride());
  for (Index r = 0; r < rows; ++r) std::fill_n(out.at(b, i + r, h), out.width, Real{0});
  p.for_key_tiles(i, i + rows, [&](Index j) {
    Tile s = memory.tile(rows, std::min(kKeyTile, p.k.length - j));
    p.scores(s, b, h, i, j);
    for (Index r = 0; r < rows; ++r) {
      const Real now = std::max(most[r], s.row(r).maxCoeff());
      const Real base = now == -kInfinity ? Real{0} : now;  // no key seen yet: all weights are 0
      const Real shrink = most[r] == -kInfinity ? Real{0} : std::exp(most[r] - base);
      if (p.entropy != nullptr) add_moment(s.row(r), base, shrink, most[r], total[r], moment[r]);
      s.row(r) = exp_or_zero(s.row(r) - base);
      if (shrink != 1 && total[r] > 0) array(out.at(b, i + r, h), out.width) *= shrink;
      total[r] = total[r] * shrink + s.row(r).sum();
      most[r] = now;
    }
    if (p.drops()) p.drop(s, b, h, i, j);
    multiply(o, ConstMatrix(s.data(), s.rows(), s.cols()),
             rows_of(p.v, b, h / p.group, j, s.cols()), true);
  });
  for (Index r = 0; r < rows; ++r) {
    const bool sees = total[r] > 0;
    if (sees) array(out.at(b, i + r, h), out.width) /= total[r];
    // +infinity makes every weight that backward recomputes 0.
    p.logsumexp[p.row(b, h, i + r)] = sees ? most[r] + std::log(total[r]) : kInfinity;
    if (p.entropy == nullptr) continue;
    p.entropy[p.row(b, h, i + r)] =
        sees ? std::log(total[r]) - moment[r] / total[r] : std::numeric_limits<Real>::quiet_NaN();
  }
}

// Backward of one head h of sequence b. With P the weights, M the dropout multipliers and
// D = rowsum(dO o O):
//   dV = (P o M)^T dO,  dS = P o ((dO V^T) o M - D),  dQ = f dS K,  dK = f dS^T Q,
// f the row factors. If f is scale / |row of q k^T|, the row's direction gets no gradient: with
// the scaled scores A = f q k^T, dS becomes dS - A rowsum(dS o A) / scale^2.
class HeadBackward {
 public:
  HeadBackward(const Problem& problem, Heads<const Real> out, const Real* dy, Index batch,
               Index head)
      : p(problem), o(out), d_o{dy, out.length, out.heads, out.width}, b(batch), h(head) {}

  // Writes dQ where `dq` has data, and dK, dV of this head alone where theirs have.
  void run(const GradientSink& dq, const Heads<Real>& dk, bool add_dk, const Heads<Real>& dv,
           bool add_dv) {
    const Heads<Real> dq_heads{dq.data, p.q.length, p.q.heads, p.q.width};
    if (dq && !dq.accumulate) {
      for (Index i = 0; i < p.q.length; ++i) std::fill_n(dq_heads.at(b, i, h), p.q.width, Real{0});
    }
    const auto zero = [&](const Heads<Real>& x, bool add) {
      if (x.data == nullptr || add) return;
      for (Index j = 0; j < x.length; ++j) std::fill_n(x.at(b, j, h), x.width, Real{0});
    };
    zero(dk, add_dk);
    zero(dv, add_dv);
    for (Index i = 0; i < p.q.length; i += kQueryTile) {
      const Index rows = std::min(kQueryTile, p.q.length - i);
      for (Index r = 0; r < rows; ++r) {
        const Real *const y = o.at(b, i + r, h), *const dy = d_o.at(b, i + r, h);
        LaneSum dot;
        for_lanes(o.width, [&]<int kCount>(Index c) {
          dot.add(lanes<kCount>(y + c) * lanes<kCount>(dy + c));
        });
        out_dot[r] = dot.total();
        along_row[r] = 0;
      }
      if (p.row_scale == RowScale::inverse_norm) find_along_row(i, rows);
      p.for_key_tiles(i, i + rows, [&](Index j) {
        tile_gradients(i, rows, j, dv);
        const ConstMatrix ds(ds_memory.data, rows, cols(j));
        if (dq) {
          multiply(Matrix(dq_heads.at(b, i, h), rows, p.q.width, p.q.stride()), ds,
                   rows_of(p.k, b, h / p.group, j, cols(j)), true);
        }
        if (dk.data != nullptr) {
          multiply(Matrix(dk.at(b, j, h), cols(j), dk.width, dk.stride()), ds.transpose(),
                   rows_of(p.q, b, h, i, rows), true);
        }
      });
    }
  }

 private:
  Index cols(Index j) const { return std::min(kKeyTile, p.k.length - j); }

  // Leaves P in p_memory and dS (before the row factors) in ds_memory.
  void weights(Index i, Index rows, Index j) {
    Tile s = p_memory.tile(rows, cols(j));
    p.scores(s, b, h, i, j);
    for (Index r = 0; r < rows; ++r) {
      s.row(r) = exp_or_zero(s.row(r) - p.logsumexp[p.row(b, h, i + r)]);
    }
    Tile ds = ds_memory.tile(rows, cols(j));
    multiply(Matrix(ds.data(), rows, cols(j)), rows_of(d_o, b, h, i, rows),
             rows_of(p.v, b, h / p.group, j, cols(j)).transpose());
    if (p.drops()) p.drop(ds, b, h, i, j);
    for (Index r = 0; r < rows; ++r) ds.row(r) = s.row(r) * (ds.row(r) - out_dot[r]);
  }

  // along_row = rowsum(dS o A) / scale^2 over all of a row's keys.
  void find_along_row(Index i, Index rows) {
    p.for_key_tiles(i, i + rows, [&](Index j) {
      weights(i, rows, j);
      const Tile ds = ds_memory.tile(rows, cols(j));
      Tile a = scaled_scores(i, rows, j);
      for (Index r = 0; r < rows; ++r) along_row[r] += (ds.row(r) * a.row(r)).sum();
    });
    for (Index r = 0; r < rows; ++r) along_row[r] /= p.scale * p.scale;
  }

  // A, with 0 for hidden keys, in p_memory.
  Tile scaled_scores(Index i, Index rows, Index j) {
    Tile a = p_memory.tile(rows, cols(j));
    p.scores(a, b, h, i, j);
    p.for_hidden(a, b, i, j, [&](Index r, Index c) { a(r, c) = 0; });
    return a;
  }

  // Adds to dV and leaves dS, times the row factors, in ds_memory.
  void tile_gradients(Index i, Index rows, Index j, const Heads<Real>& dv) {
    weights(i, rows, j);
    Tile weight = p_memory.tile(rows, cols(j)), ds = ds_memory.tile(rows, cols(j));
    if (dv.data != nullptr) {
      if (p.drops()) p.drop(weight, b, h, i, j);
      multiply(Matrix(dv.at(b, j, h), cols(j), dv.width, dv.stride()),
               ConstMatrix(weight.data(), rows, cols(j)).transpose(), rows_of(d_o, b, h, i, rows),
               true);
    }
    if (p.row_scale == RowScale::one) {
      ds *= p.scale;
      return;
    }
    if (p.row_scale == RowScale::inverse_norm) {
      const Tile a = scaled_scores(i, rows, j);
      for (Index r = 0; r < rows; ++r) ds.row(r) -= a.row(r) * along_row[r];
    }
    for (Index r = 0; r < rows; ++r) ds.row(r) *= p.row_factor[p.row(b, h, i + r)];
  }

  const Problem& p;
  Heads<const Real> o, d_o;
  Index b, h;
  TileMemory p_memory, ds_memory;
  Real out_dot[kQueryTile], along_row[kQueryTile];
};

// sink [B, S, G, width] from per-query-head parts [B, S, H, width]: the heads of a group in order.
void sum_groups(const GradientSink& sink, const Real* parts, Index rows, Index kv_heads,
                Index group, Index width) {
  parallel_chunks(rows * kv_heads, row_chunk(group * width), [=](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      for (Index h = 0; h < group; ++h) {
        put({sink.data, sink.accumulate || h > 0}, i * width,
            array(parts + (i * group + h) * width, width));
      }
    }
  });
}

void check(const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& options) {
  const auto fail_unless = [&](bool condition, std::string_view message) {
    require(condition, Op::attention, message, " (q ", q, ", k ", k, ", v ", v, ")");
  };
  fail_unless(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "q, k and v must have 4 dimensions");
  fail_unless(q[0] == k[0] && q[0] == v[0] && k[1] == v[1], "batch and key lengths must agree");
  fail_unless(q[3] == k[3], "q and k must have the same head dimension");
  fail_unless(k[2] == v[2] && k[2] > 0 && q[2] % k[2] == 0,
              "query heads must be a multiple of key/value heads");
  fail_unless(!options.causal || q[1] <= k[1], "causal attention needs a key for every query");
  fail_unless(options.window == 0 || (options.causal && options.window > 0),
              "a window must be positive and causal");
  fail_unless(
      options.key_mask.empty() || options.key_mask.size() == static_cast<std::size_t>(k[0] * k[1]),
      "the key mask must be [B, S]");
  fail_unless(options.dropout >= 0 && options.dropout < 1,
              "dropout must be at least 0 and below 1");
}

Problem make_problem(Tape& tape, Var q, Var k, Var v, const AttentionOptions& options) {
  const Shape &qs = tape.shape(q), &ks = tape.shape(k), &vs = tape.shape(v);
  Problem p{.q = {tape.value(q), qs[1], qs[2], qs[3]},
            .k = {tape.value(k), ks[1], ks[2], ks[3]},
            .v = {tape.value(v), vs[1], vs[2], vs[3]},
            .batch = qs[0],
            .group = qs[2] / ks[2],
            .scale = options.scale,
            .causal = options.causal,
            .window = options.window,
            .row_scale = options.row_scale,
            .dropout = {},
            .key_mask = nullptr,
            .logsumexp = tape.scratch(qs[0] * qs[1] * qs[2]),
            .row_factor = nullptr,
            .entropy = nullptr};
  if (tape.attention_entropy() != nullptr) p.entropy = tape.scratch(qs[0] * qs[1] * qs[2]);
  if (options.row_scale != RowScale::one) p.row_factor = tape.scratch(qs[0] * qs[1] * qs[2]);
  if (tape.training() && options.dropout > 0)
    p.dropout = Dropout(options.dropout, tape.next_random_key());
  if (!options.key_mask.empty()) {
    auto* mask = tape.scratch_of<std::uint8_t>(static_cast<Index>(options.key_mask.size()));
    std::ranges::copy(options.key_mask, mask);
    p.key_mask = mask;
  }
  return p;
}

}  // namespace

// Forward: one task per sequence, head and query tile. Backward: one per sequence and head.
Var attention(Var q, Var k, Var v, const AttentionOptions& options) {
  Tape& tape = tape_of(q);
  const Shape qs = tape.shape(q), vs = tape.shape(v);
  check(qs, tape.shape(k), vs, options);
  const Var y = tape.record(Op::attention, qs.with_last(vs[3]), {q, k, v});
  const Problem problem = make_problem(tape, q, k, v, options);
  const Heads<Real> out{tape.value(y), qs[1], qs[2], vs[3]};
  const Index heads = qs[2], tiles = (qs[1] + kQueryTile - 1) / kQueryTile;
  const Index macs_per_query = problem.k.length * (problem.k.width + problem.v.width);
  const Index forward_chunk = task_chunk(std::min(kQueryTile, qs[1]) * macs_per_query);
  parallel_chunks(qs[0] * heads * tiles, forward_chunk, [&](Index begin, Index end) {
    for (Index task = begin; task < end; ++task) {
      const Index i = task % tiles * kQueryTile;
      forward_tile(problem, out, task / tiles / heads, task / tiles % heads, i,
                   std::min(kQueryTile, qs[1] - i));
    }
  });
  if (problem.entropy != nullptr) {
    for (const Real entropy :
         std::span(problem.entropy, static_cast<std::size_t>(qs[0] * heads * qs[1]))) {
      if (std::isnan(entropy)) continue;  // the query sees no key
      tape.attention_entropy()->sum += static_cast<double>(entropy);
      ++tape.attention_entropy()->rows;
    }
  }
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const Problem& p = problem;
    const GradientSink dq = t.gradient_sink(q), dk = t.gradient_sink(k), dv = t.gradient_sink(v);
    // Query heads of a group meet in the same dK and dV: each gets its own copy, added up in order.
    const bool apart = p.group > 1;
    const Index kv_rows = p.batch * p.k.length;
    Real* const dk_parts = apart && dk ? t.pool().take(kv_rows * heads * p.k.width) : dk.data;
    Real* const dv_parts = apart && dv ? t.pool().take(kv_rows * heads * p.v.width) : dv.data;
    const Heads<Real> dk_heads{dk_parts, p.k.length, heads, p.k.width};
    const Heads<Real> dv_heads{dv_parts, p.v.length, heads, p.v.width};
    const Heads<const Real> o{out.data, out.length, out.heads, out.width};
    parallel_chunks(
        p.batch * heads, task_chunk(p.q.length * macs_per_query), [&](Index begin, Index end) {
          for (Index task = begin; task < end; ++task) {
            HeadBackward(p, o, dy, task / heads, task % heads)
                .run(dq, dk_heads, !apart && dk.accumulate, dv_heads, !apart && dv.accumulate);
          }
        });
    if (!apart) return;
    for (const auto& [sink, parts, width] :
         {std::tuple{dk, dk_parts, p.k.width}, std::tuple{dv, dv_parts, p.v.width}}) {
      if (!sink) continue;
      sum_groups(sink, parts, kv_rows, p.k.heads, p.group, width);
      t.pool().give_back(parts);
    }
  });
  return y;
}

}  // namespace headcount
