#include <cmath>

#include "autograd/ops/attention_kernels.h"

namespace headcount {

namespace {

// exp(x), and exactly 0 for -infinity. Eigen's vectorised exp returns denormal numbers there: a
// query that sees no key would seem to see all of them, and arithmetic on denormals is slow.
template <class Scores>
auto exp_or_zero(const Scores& x) {
  return (x.exp() - std::numeric_limits<Real>::min()).max(Real{0});
}

// Memory for one tile.
struct TileMemory {
  alignas(kAlignment) Real data[kQueryTile * kStackedKeyTile];
  Tile tile(Index rows, Index cols) { return {data, rows, cols}; }
};

// Replaces the scores that query i has in row r of a tile, whose first key is j, by their
// weights in `softmax`: exactly 0 for a hidden key. Half of a causal tile lies behind the last key
// that is seen; no exponential is computed there, but for the rest of a vector.
void exponentials(const AttentionProblem& p, Index i, Index j, Tile& s, Index r,
                  const RowSoftmax& softmax) {
  const auto weights = [&](const auto& scores) {
    return exp_or_zero(scores - softmax.greatest) * softmax.inverse;
  };
  constexpr Index kVector = EIGEN_MAX_ALIGN_BYTES / sizeof(Real);
  const Index vectors = (p.end_key(i) - j + kVector - 1) / kVector;
  if (vectors * kVector >= s.cols()) {
    s.row(r) = weights(s.row(r));
    return;
  }
  const Index seen = std::max<Index>(0, vectors * kVector);
  s.row(r).head(seen) = weights(s.row(r).head(seen));
  s.row(r).tail(s.cols() - seen).setZero();
}

// Computes row_factor of queries [i, i + rows).
void find_row_factors(const AttentionGroups& groups, Index b, Index h, Index i, Index rows,
                      TileMemory& memory) {
  const Real scale = groups.tokens().scale;
  Real* factor = groups.tokens().row_factor + groups.tokens().row(b, h, i);
  std::fill_n(factor, rows, Real{0});
  groups.for_key_tiles(i, i + rows, [&](const AttentionProblem& p, Index j, Index cols) {
    Tile s = memory.tile(rows, cols);
    if (p.row_scale == RowScale::inverse_norm) {
      p.raw_scores(s, b, h, i, j);
    } else {
      s.setOnes();
    }
    p.for_hidden(s, b, i, j, [&](Index r, Index c) { s(r, c) = 0; });
    for (Index r = 0; r < rows; ++r) factor[r] += s.row(r).square().sum();
  });
  for (Index r = 0; r < rows; ++r) {
    factor[r] = factor[r] > 0 ? scale / std::sqrt(factor[r]) : Real{0};
  }
}

}  // namespace

Index RowView::scratch_size() const {
  if (converted == nullptr) return 0;
  const RowCache* const mixing = converted->mixing();
  return kStackedKeyTile * (mixing == nullptr ? width : 2 * width + mixing->width());
}

ConstMatrix RowView::converted_rows(Index b, Index h, Index begin, Index count,
                                    Real* scratch) const {
  const RowCache& cache = *converted->cache();
  const auto read = [&](Index head, Real* to) {
    return cache.read(b, head, begin, count, converted->first(), width, to);
  };
  if (converted->mixing() == nullptr) return read(h / group, scratch);
  Real* const unmixed = scratch + kStackedKeyTile * width;
  const ConstMatrix weights = converted->mixing()->read(
      b, 0, begin, count, 0, converted->mixing()->width(), unmixed + kStackedKeyTile * width);
  std::fill_n(scratch, count * width, Real{0});
  for (Index r = 0, terms = cache.heads(); r < terms; ++r)
    add_mixed(read(r, unmixed), weights, h * terms + r, scratch, width);
  return {scratch, count, width};
}

// Keeps a running maximum and sum of each row over the key tiles; out is rescaled whenever the
// maximum grows.
void forward_tile(const AttentionGroups& groups, const HeadRows<Real>& out, Index b, Index h,
                  Index i, Index rows) {
  TileMemory memory, m_memory;
  const AttentionProblem& all = groups.tokens();
  if (all.row_scale != RowScale::one) find_row_factors(groups, b, h, i, rows, memory);
  Real greatest[kQueryTile], total[kQueryTile];
  // A sink is the first maximum, with a weight of 1 in the sum; it adds nothing to the output.
  for (Index r = 0; r < rows; ++r)
    greatest[r] = all.sinks == nullptr ? -kInfinity : all.sinks[all.call_head(h, i + r)];
  std::fill_n(total, rows, all.sinks == nullptr ? Real{0} : Real{1});
  const Matrix o = out.rows(b, h, i, rows);
  bool written = false;
  groups.for_key_tiles(i, i + rows, [&](const AttentionProblem& p, Index j, Index cols) {
    Tile s = memory.tile(rows, cols);
    p.scores(s, b, h, i, j);
    for (Index r = 0; r < rows; ++r) {
      const Real now = std::max(greatest[r], s.row(r).maxCoeff());
      const Real base = now == -kInfinity ? Real{0} : now;  // no key seen yet: all weights are 0
      const Real shrink = greatest[r] == -kInfinity ? Real{0} : std::exp(greatest[r] - base);
      exponentials(p, i + r, j, s, r, {base, 1});
      if (shrink != 1 && total[r] > 0 && written) array(out.at(b, i + r, h), out.width) *= shrink;
      total[r] = total[r] * shrink + s.row(r).sum();
      greatest[r] = now;
    }
    if (p.drops()) {
      Tile m = m_memory.tile(rows, s.cols());
      p.multipliers(m, b, h, i, j);
      s *= m;
    }
    gemm(o, matrix(s), p.values.rows(b, h, j, s.cols(), p.own_tile()), add_if(written));
    written = true;
  });
  for (Index r = 0; r < rows; ++r) {
    if (!written) std::fill_n(out.at(b, i + r, h), out.width, Real{0});  // no keys at all
    const bool sees = total[r] > 0;
    if (sees) array(out.at(b, i + r, h), out.width) /= total[r];
    all.softmax[all.row(b, h, i + r)] = sees ? RowSoftmax{greatest[r], 1 / total[r]} : RowSoftmax{};
  }
}

// The entropy is the sum of -p log p over weights p = exp(s - greatest) / total: log total - sum of
// p (s - greatest), of which no term is negative.
void stats_tile(const AttentionGroups& groups, Index b, Index h, Index i, Index rows, Real* entropy,
                Real* weights, Real* pooled_weights) {
  TileMemory memory;
  const AttentionProblem& all = groups.tokens();
  const RowSoftmax* const softmax = all.softmax + all.row(b, h, i);
  for (Index r = 0; r < rows; ++r) {
    const bool sees = softmax[r].inverse > 0;
    entropy[r] = sees ? -std::log(softmax[r].inverse) : std::numeric_limits<Real>::quiet_NaN();
    if (all.sinks == nullptr) continue;
    const Real sink = all.sinks[all.call_head(h, i + r)];
    entropy[r] -= softmax[r].weight(sink) * (sink - softmax[r].greatest);
  }
  groups.for_key_tiles(i, i + rows, [&](const AttentionProblem& p, Index j, Index cols) {
    Tile s = memory.tile(rows, cols);
    p.scores(s, b, h, i, j);
    for (Index r = 0; r < rows; ++r) {
      s.row(r) -= softmax[r].greatest;
      const auto weight = exp_or_zero(s.row(r)) * softmax[r].inverse;
      entropy[r] -= (s.row(r) == -kInfinity).select(Real{0}, weight * s.row(r)).sum();
      if (weights == nullptr) continue;
      const Index place = all.call_row(b, h, i + r);
      Real* const row = weights + place * all.key_count;
      if (p.block == 0) {
        array(row + j, s.cols()) = weight.transpose();
        continue;
      }
      const Index seen = std::clamp<Index>(p.end_key(i + r) - j, 0, s.cols());
      for (Index c = 0; c < seen; ++c) {
        const Real of_row = std::exp(s(r, c)) * softmax[r].inverse;
        array(row + (j + c) * p.block, p.block) += of_row / static_cast<Real>(p.block);
        pooled_weights[place * p.key_count + j + c] = of_row;
      }
    }
  });
}

void picked_weights_tile(const AttentionProblem& p, Index b, Index t, Index count) {
  TileMemory memory;
  const Index most = p.selection.rows.most;
  std::fill_n(p.selection.weights + (b * p.tokens() + t) * most, count * most, Real{0});
  const auto add_rows = [&](Index h, Index i, Index rows) {
    p.for_key_tiles(i, i + rows, [&](Index j, Index cols) {
      Tile s = memory.tile(rows, cols);
      p.scores(s, b, h, i, j);
      for (Index r = 0; r < rows; ++r) {
        exponentials(p, i + r, j, s, r, p.softmax[p.row(b, h, i + r)]);
        const Index token = p.token(i + r);
        const std::span<const std::int32_t> picked = p.picked_of(b, i + r, j, s.cols());
        const auto slot = picked.data() - p.selection.rows.of(b, token, p.tokens());
        Real* const to = p.selection.weights + (b * p.tokens() + token) * most + slot;
        for (std::size_t n = 0; n < picked.size(); ++n) to[n] += s(r, picked[n] - j);
      }
    });
  };
  const Index end = (t + count) * p.stacked;
  for (Index h = 0; h < p.heads; ++h) {
    for (Index i = t * p.stacked; i < end; i += kQueryTile)
      add_rows(h, i, std::min(kQueryTile, end - i));
  }
}

namespace {

// Backward of one part of sequence b, queries of head h. With P the weights, M the dropout
// multipliers and D = rowsum(dO o O):
//   dV = (P o M)^T dO,  dS = P o ((dO V^T) o M - D),  dQ = f dS K,  dK = f dS^T Q,
// f the row factors. Of scores A with a cap, dS is times 1 - tanh^2(A / cap). If f is scale / |row
// of q k^T|, the row's direction gets no gradient: with the scaled scores A = f q k^T, dS becomes
// dS - A rowsum(dS o A) / scale^2. A sink of weight p in a row has no value: its gradient is the
// sum over the rows of -p D.
class PartBackward {
 public:
  PartBackward(const AttentionGroups& all_groups, const HeadRows<const Real>& out,
               const HeadRows<const Real>& dy, Index batch, Index which, Index of)
      : groups(all_groups),
        all(groups.tokens()),
        o(out),
        d_o(dy),
        b(batch),
        h(all.stacked > 1 ? 0 : which),
        part(which),
        parts(of) {}

  // Writes the gradients of this part to those destinations that have data.
  void run(const RowGradient& dq, const std::array<GroupGradient, 2>& of_groups,
           const ScoreGradients& of_scores) {
    key_sums = of_scores.key_sums;
    if (of_scores.sinks != nullptr) std::fill_n(of_scores.sinks, all.stacked, Real{0});
    if (key_sums != nullptr) std::fill_n(key_sums, all.key_count, Real{0});
    // Queries see contiguous tiles of keys, later queries later tiles. Keys before `seen` have been
    // written; no query sees those before the first tile. Tiles of stacked heads overlap: all their
    // keys are set to zero first.
    std::array<Index, 2> seen = {};
    const auto clear_keys = [&](std::size_t group, Index begin, Index end) {
      for (std::size_t index = 0; index < groups.all[group].keys.count; ++index)
        of_groups[group].keys[index].clear(b, part, begin, end);
      of_groups[group].values.clear(b, part, begin, end);
    };
    for (std::size_t group = 0; group < groups.count; ++group) {
      const AttentionProblem& p = groups.all[group];
      seen[group] = p.stacked > 1 ? p.key_count : p.first_key(0) / kKeyTile * kKeyTile;
      clear_keys(group, 0, seen[group]);
    }
    const Index step = all.stacked > 1 ? parts * kQueryTile : kQueryTile;
    for (Index i = all.stacked > 1 ? part * kQueryTile : 0; i < all.length; i += step) {
      const Index rows = std::min(kQueryTile, all.length - i);
      for (Index r = 0; r < rows; ++r) {
        const Real *const y = o.at(b, i + r, h), *const dy = d_o.at(b, i + r, h);
        LaneSum dot;
        for_lanes(o.width, [&]<int kCount>(Index c) {
          dot.add(lanes<kCount>(y + c) * lanes<kCount>(dy + c));
        });
        out_dot[r] = dot.total();
        along_row[r] = 0;
        if (all.sinks != nullptr) add_sink_gradient(i + r, out_dot[r], of_scores);
      }
      if (all.row_scale == RowScale::inverse_norm) find_along_row(i, rows);
      bool first = true;  // of the tiles that these queries see
      groups.for_key_tiles(i, i + rows, [&](const AttentionProblem& p, Index j, Index cols) {
        const auto group = static_cast<std::size_t>(&p - groups.begin());
        const bool again = j < seen[group];
        tile_gradients(p, i, rows, j, cols, of_groups[group].values, again);
        Tile ds_tile = ds_memory.tile(rows, cols);
        const ConstMatrix ds = matrix(ds_tile);
        std::size_t index = 0;
        p.for_key_parts([&](const RowView& keys, Index column) {
          if (dq) {
            gemm(dq.columns(column, keys.width).rows(b, h, i, rows), ds, keys.rows(b, h, j, cols),
                 first ? dq.write : Write::add);
          }
          if (const RowGradient& d = of_groups[group].keys[index++]) {
            gemm(d.rows(b, part, j, cols), ds.transpose(),
                 p.q.columns(column, keys.width).rows(b, h, i, rows), again ? Write::add : d.write);
          }
        });
        first = false;
        seen[group] = std::max(seen[group], j + kKeyTile);
      });
      if (first) dq.clear(b, h, i, i + rows);  // these queries see no key
    }
    for (std::size_t group = 0; group < groups.count; ++group)
      clear_keys(group, seen[group], groups.all[group].key_count);  // no query sees these keys
  }

 private:
  // What the sink gets, a row's other scores get less. `key_sums` is relative to the row's own
  // gate.
  void add_sink_gradient(Index i, Real row_dot, const ScoreGradients& of_scores) const {
    const Real sink = all.sinks[all.call_head(h, i)];
    const Real gradient = -all.softmax[all.row(b, h, i)].weight(sink) * row_dot;
    if (of_scores.sinks != nullptr) of_scores.sinks[i % all.stacked] += gradient;
    if (key_sums != nullptr) key_sums[all.own_key(i)] += gradient;
  }

  // Leaves P in p_memory, M in m_memory and dS (before the row factors) in ds_memory.
  void weights(const AttentionProblem& p, Index i, Index rows, Index j, Index cols) {
    Tile s = p_memory.tile(rows, cols);
    p.scores(s, b, h, i, j);
    for (Index r = 0; r < rows; ++r) exponentials(p, i + r, j, s, r, p.softmax[p.row(b, h, i + r)]);
    Tile ds = ds_memory.tile(rows, cols);
    gemm(matrix(ds), d_o.rows(b, h, i, rows), p.values.rows(b, h, j, cols).transpose());
    if (p.drops()) {
      Tile m = m_memory.tile(rows, cols);
      p.multipliers(m, b, h, i, j);
      ds *= m;
    }
    for (Index r = 0; r < rows; ++r) ds.row(r) = s.row(r) * (ds.row(r) - out_dot[r]);
  }

  // along_row = rowsum(dS o A) / scale^2 over all of a row's keys.
  void find_along_row(Index i, Index rows) {
    groups.for_key_tiles(i, i + rows, [&](const AttentionProblem& p, Index j, Index cols) {
      weights(p, i, rows, j, cols);
      const Tile ds = ds_memory.tile(rows, cols);
      Tile a = scaled_scores(p, i, rows, j, cols);
      for (Index r = 0; r < rows; ++r) along_row[r] += (ds.row(r) * a.row(r)).sum();
    });
    for (Index r = 0; r < rows; ++r) along_row[r] /= all.scale * all.scale;
  }

  // A, with 0 for hidden keys, in p_memory.
  Tile scaled_scores(const AttentionProblem& p, Index i, Index rows, Index j, Index cols) {
    Tile a = p_memory.tile(rows, cols);
    p.scaled_scores(a, b, h, i, j);
    p.for_hidden(a, b, i, j, [&](Index r, Index c) { a(r, c) = 0; });
    return a;
  }

  // Adds to dV and leaves dS, times the row factors, in ds_memory.
  void tile_gradients(const AttentionProblem& p, Index i, Index rows, Index j, Index cols,
                      const RowGradient& dv, bool again) {
    weights(p, i, rows, j, cols);
    Tile weight = p_memory.tile(rows, cols), ds = ds_memory.tile(rows, cols);
    if (dv) {
      if (p.drops()) weight *= m_memory.tile(rows, cols);
      gemm(dv.rows(b, part, j, cols), ConstMatrix(matrix(weight)).transpose(),
           d_o.rows(b, h, i, rows), again ? Write::add : dv.write);
    }
    if (key_sums != nullptr) {
      for (Index r = 0; r < rows; ++r) array(key_sums + j, cols) += ds.row(r).transpose();
    }
    if (p.cap > 0) ds *= 1 - (scaled_scores(p, i, rows, j, cols) / p.cap).tanh().square();
    if (p.row_scale == RowScale::one) {
      ds *= p.scale;
      return;
    }
    if (p.row_scale == RowScale::inverse_norm) {
      const Tile a = scaled_scores(p, i, rows, j, cols);
      for (Index r = 0; r < rows; ++r) ds.row(r) -= a.row(r) * along_row[r];
    }
    for (Index r = 0; r < rows; ++r) ds.row(r) *= p.row_factor[p.row(b, h, i + r)];
  }

  const AttentionGroups& groups;
  const AttentionProblem& all;  // what the groups have in common
  HeadRows<const Real> o, d_o;
  Index b, h, part, parts;
  Real* key_sums = nullptr;
  TileMemory p_memory, ds_memory, m_memory;
  Real out_dot[kQueryTile], along_row[kQueryTile];
};

}  // namespace

void backward_part(const AttentionGroups& groups, const HeadRows<const Real>& out,
                   const HeadRows<const Real>& dy, Index b, Index part, Index parts,
                   const RowGradient& dq, const std::array<GroupGradient, 2>& of_groups,
                   const ScoreGradients& of_scores) {
  PartBackward(groups, out, dy, b, part, parts).run(dq, of_groups, of_scores);
}

}  // namespace headcount
