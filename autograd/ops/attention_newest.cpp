#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "autograd/ops/attention_kernels.h"
#include "autograd/ops/newest_keys.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

constexpr Index kRowsOfProduct = 4;  // fewer query heads are faster in products of one row each

// Attention of the newest token of each sequence, in two passes over the keys that it sees. Both
// run in tasks of one cached head and one chunk of keys of one group. The first pass computes all
// scores, from which follow the scale and the greatest score of each row. The second one computes
// their exponentials and the weighted sums of values, which are added up in the order of the
// chunks. A score is scaled in memory before the greatest is subtracted: in one expression, a fused
// multiply-add would subtract the rounded product from the exact one, and exp of a product's
// rounding error overflows where products are large.
class NewestToken {
 public:
  NewestToken(Tape& tape, Var query, std::span<const Rows> keys, const Rows& values,
              const AttentionOptions& attention_options, Var output)
      : shape(tape.shape(query)),
        q(tape.value(query)),
        out(tape.value(output)),
        options(attention_options),
        sinks(options.sinks ? tape.value(*options.sinks) : nullptr),
        by_norm(options.row_scale == RowScale::inverse_norm),
        factor(options.scale),
        v_width(values.width()) {
    // Forget gates need the order of tokens.
    tokens = {keys, values, options.selection, options.window, options.log_gates != nullptr};
    if (options.pooled) {
      const PooledRows& rows = *options.pooled;
      pooled = {std::span(&rows.keys, 1), rows.values, rows.selection, 0, false};
    }
    heads = 1;
    Index width = v_width, mixing_width = 0, most_chunks = 0;
    bool converts = false;
    const auto include = [&](const Rows& rows) {
      heads = std::lcm(heads, read_heads(rows));
      width = std::max(width, rows.width());
      converts |= rows.cache()->converts();
      if (rows.mixing() == nullptr) return;
      mixing_width = std::max(mixing_width, rows.mixing()->width());
      converts |= rows.mixing()->converts();
    };
    // Sizes of a full cache, so that every token takes the same memory.
    const auto add = [&](KeyGroup& one) {
      include(*one.values);
      std::ranges::for_each(one.keys, include);
      converts |= one.picks();  // picked rows are copied to lie side by side
      one.first_key = stride;
      stride += (one.most + kAligned - 1) / kAligned * kAligned;
      chunks += one.chunks();
      most_chunks += one.most_chunks();
      count += one.count;
    };
    add(tokens);
    if (options.pooled) add(pooled);
    if (options.row_scale == RowScale::inverse_sqrt_length)
      factor /= std::sqrt(static_cast<Real>(count));
    group = shape[2] / heads;
    rows_at_once = group >= kRowsOfProduct ? group : 1;
    const Index most_tasks = shape[0] * heads * most_chunks;
    piece_keys = keys_per_piece(std::max(width, mixing_width));
    weights_at = converts ? piece_keys * width : 0;
    products_at = weights_at + (converts ? piece_keys * mixing_width : 0);
    piece = products_at + (mixing_width > 0 ? piece_keys : 0);
    scores = tape.scratch(shape[0] * shape[2] * stride);
    threads_here = OnOneThread::active() ? 1 : threads();
    converted = tape.scratch(threads_here * piece);
    sums = tape.scratch(most_tasks * group * v_width);
    sums_of_exp = tape.scratch(most_tasks * group);
    extents = tape.scratch_of<Extent>(most_tasks * group);
    row_scales = tape.scratch_of<Scale>(shape[0] * shape[2]);
    if (options.log_gates != nullptr) gate_sums = tape.scratch_of<double>(most_tasks * group);
  }

  void run() {
    const Index tasks = shape[0] * heads * chunks;
    const Index chunk = task_chunk(group * std::min(kKeyChunk, count) * shape[3]);
    const auto for_rows = [&](const auto& body) {
      for (Index h = 0; h < shape[0] * heads; ++h) {
        for (Index i = 0; i < group; ++i) body(h, i);
      }
    };
    parallel_for(tasks, chunk, [&](Index task) { score(task); });
    for_rows([&](Index h, Index i) { find_scale(h, i, !by_norm); });
    if (options.log_gates != nullptr) {
      for_rows([&](Index h, Index i) { sum_later_gates(h, i); });
      parallel_for(tasks, task_chunk(group * kKeyChunk), [&](Index task) { forget(task); });
      for_rows([&](Index h, Index i) { find_scale(h, i, true); });
    }
    parallel_for(tasks, chunk, [&](Index task) { weigh(task); });
    for_rows([&](Index h, Index i) { add_chunks(h, i); });
  }

 private:
  // Range and sum of squares of one query head's scores in a chunk. The extents of all chunks give
  // the scale of the row. Of scores that are scaled, the greatest alone is known.
  struct Extent {
    Real least, greatest, squares;
  };
  struct Scale {
    Real factor;    // of the scores that are in memory
    Real greatest;  // score after the factor, that of the sink included
  };

  const KeyGroup& group_of(Index task) const {
    return task % chunks < tokens.chunks() ? tokens : pooled;
  }
  // First of a task's keys among those of its group, and their number.
  Index first_key(Index task) const {
    const Index chunk = task % chunks;
    return (chunk < tokens.chunks() ? chunk : chunk - tokens.chunks()) * kKeyChunk;
  }
  Index key_count(Index task) const {
    return std::min(kKeyChunk, group_of(task).count - first_key(task));
  }
  // Place of the score of a task's first key in a row of all scores.
  Index first_score(Index task) const { return group_of(task).first_key + first_key(task); }
  // Scratch of the calling thread for converted rows: small enough for the processor's cache,
  // unlike scratch of each task, which would amount to an unconverted KV cache.
  Real* workspace() const { return converted + (threads_here == 1 ? 0 : this_thread() * piece); }
  // Head of a task, counted over all sequences; its `group` query heads lie side by side.
  Index head(Index task) const { return task / chunks; }

  // Calls body(place of the first score, slot, count) for the pieces of a task's keys.
  template <class Body>
  void for_pieces(Index task, const Body& body) const {
    const Index begin = first_key(task);
    group_of(task).for_pieces(begin, begin + key_count(task), piece_keys, body);
  }

  // Number of cached heads from which a task takes one. It is 1 if the rows are mixed, since a task
  // then reads all heads.
  static Index read_heads(const Rows& rows) {
    return rows.mixing() != nullptr ? 1 : rows.cache()->heads();
  }

  // Rows of one part of the keys, or of the values, that the query heads of `h` read.
  ConstMatrix read(const KeyGroup& from, const Rows& rows, Index h, Index slot, Index n) const {
    const Index own = h % heads / (heads / rows.cache()->heads());
    return from.read(rows, h / heads, own, slot, n, workspace());
  }

  // Calls body(i, x, weights, stride) for each head x of rows to mix and each query head i of `h`,
  // which reads the sum of x times `weights` [n], which are `stride` apart.
  template <class Body>
  void for_mixed(const Rows& rows, Index h, Index slot, Index n, const Body& body) const {
    const RowCache &cache = *rows.cache(), &mixing = *rows.mixing();
    const Index b = h / heads, terms = cache.heads();
    const ConstMatrix weights =
        mixing.read(b, 0, slot, n, 0, mixing.width(), workspace() + weights_at);
    for (Index r = 0; r < terms; ++r) {
      const ConstMatrix x = cache.read(b, r, slot, n, rows.first(), rows.width(), workspace());
      for (Index i = h * group; i < (h + 1) * group; ++i)
        body(i, x, weights.data + i % shape[2] * terms + r, weights.stride);
    }
  }

  void score(Index task) const {
    const Index h = head(task);
    const KeyGroup& own = group_of(task);
    for_pieces(task, [&](Index key, Index slot, Index n) {
      Index column = 0;
      for (const Rows& part : own.keys) {
        const Index width = part.width();
        const auto q_rows = [&](Index i, Index rows) {
          return ConstMatrix(q + i * shape[3] + column, rows, width, shape[3]);
        };
        const auto score_row = [&](Index i) { return scores + i * stride + key; };
        if (part.mixing() == nullptr) {
          const ConstMatrix k = read(own, part, h, slot, n);
          for (Index i = h * group; i < (h + 1) * group; i += rows_at_once)
            gemm(Matrix(score_row(i), rows_at_once, n, stride), q_rows(i, rows_at_once),
                 k.transpose(), add_if(column > 0));
        } else {
          if (column == 0) {
            for (Index i = h * group; i < (h + 1) * group; ++i)
              std::fill_n(score_row(i), n, Real{0});
          }
          Real* const products = workspace() + products_at;
          for_mixed(part, h, slot, n,
                    [&](Index i, const ConstMatrix& k, const Real* weights, Index apart) {
                      gemm(Matrix(products, 1, n), q_rows(i, 1), k.transpose());
                      Real* const row = score_row(i);
                      for (Index j = 0; j < n; ++j) row[j] += products[j] * weights[j * apart];
                    });
        }
        column += width;
      }
    });
    for (Index i = 0; i < group; ++i) {
      ArrayMap row = array(scores + (h * group + i) * stride + first_score(task), key_count(task));
      if (!by_norm) row *= factor;
      if (options.cap > 0) row = options.cap * (row / options.cap).tanh();
      extents[task * group + i] = by_norm
                                      ? Extent{row.minCoeff(), row.maxCoeff(), row.square().sum()}
                                      : Extent{0, row.maxCoeff(), 0};
      if (options.log_gates != nullptr) gate_sums[task * group + i] = sum_of_gates(task, i);
    }
  }

  // Calls body(key, gates, count) for the log gates of row i of a task's group.
  template <class Body>
  void for_gates(Index task, Index i, const Body& body) const {
    const Index h = head(task), row = h % heads * group + i;
    for_pieces(task, [&](Index key, Index slot, Index n) {
      body(key, options.log_gates->cache()->read(h / heads, row, slot, n, 0, 1, nullptr).data, n);
    });
  }

  // Several sums, so that additions do not wait for each other.
  double sum_of_gates(Index task, Index i) const {
    std::array<double, kLanes> lanes = {};
    for_gates(task, i, [&](Index, const Real* gates, Index n) {
      for_lanes(n, [&]<int kCount>(Index j) {
        for (std::size_t lane = 0; lane < kCount; ++lane)
          lanes[lane] += static_cast<double>(gates[j + static_cast<Index>(lane)]);
      });
    });
    return std::accumulate(lanes.begin(), lanes.end(), 0.0);
  }

  // Adds the log gates of the tokens after each key to the scores, scaled.
  void forget(Index task) const {
    const Index h = head(task);
    alignas(kAlignment) Real gates[kKeyChunk];
    for (Index i = 0; i < group; ++i) {
      for_gates(task, i, [&](Index key, const Real* of_piece, Index n) {
        std::copy_n(of_piece, n, gates + key - first_key(task));
      });
      const Index n = key_count(task);
      Real* const row = scores + (h * group + i) * stride + first_key(task);
      if (by_norm) array(row, n) *= row_scales[h * group + i].factor;
      add_later_gates(row, gates, n, gate_sums[task * group + i]);
      extents[task * group + i] = {0, array(static_cast<const Real*>(row), n).maxCoeff(), 0};
    }
  }

  // row[j] += later + the sum of gates[j + 1 ..]. The sums of a block do not wait for `later`.
  static void add_later_gates(Real* row, const Real* gates, Index n, double later) {
    constexpr Index kBlock = 8;
    Index end = n;
    for (; end >= kBlock; end -= kBlock) {
      const Real* const own = gates + end - kBlock;
      std::array<double, kBlock> after = {};
      for (std::size_t j = kBlock - 1; j > 0; --j)
        after[j - 1] = after[j] + static_cast<double>(own[j]);
      for (std::size_t j = 0; j < kBlock; ++j)
        (row + end - kBlock)[j] += static_cast<Real>(later + after[j]);
      later += after[0] + static_cast<double>(own[0]);
    }
    for (Index j = end - 1; j >= 0; --j) {
      row[j] += static_cast<Real>(later);
      later += static_cast<double>(gates[j]);
    }
  }

  // Index of the results of row i of a task's group in chunk c.
  Index place(Index h, Index c, Index i) const { return (h * chunks + c) * group + i; }

  Real sink(Index h, Index i) const { return sinks[(h * group + i) % shape[2]]; }
  // Returns true if all weights of a task's keys are 0 in Real: the values need not be read.
  bool is_forgotten(Index task) const {
    if (options.log_gates == nullptr) return false;
    static const Real least = std::log(std::numeric_limits<Real>::min());
    for (Index i = 0; i < group; ++i) {
      const Real greatest = row_scales[head(task) * group + i].greatest;
      if (extents[task * group + i].greatest - greatest >= least) return false;
    }
    return true;
  }

  // Replaces the sums of the log gates of a row's chunks by those of all later chunks.
  void sum_later_gates(Index h, Index i) const {
    double later = 0;
    for (Index c = chunks; c-- > 0;) later += std::exchange(gate_sums[place(h, c, i)], later);
  }

  // Finds the scale of a row of scores, once for all its chunks; `scaled` ones need no factor.
  void find_scale(Index h, Index i, bool scaled) const {
    Extent all = extents[place(h, 0, i)];
    for (Index c = 1; c < chunks; ++c) {
      const Extent& one = extents[place(h, c, i)];
      all = {std::min(all.least, one.least), std::max(all.greatest, one.greatest),
             all.squares + one.squares};
    }
    Scale& row = row_scales[h * group + i];
    row = {1, all.greatest};
    if (!scaled) {
      row.factor = all.squares > 0 ? factor / std::sqrt(all.squares) : Real{0};
      row.greatest = row.factor * (row.factor < 0 ? all.least : all.greatest);
    }
    if (sinks != nullptr) row.greatest = std::max(row.greatest, sink(h, i));
  }

  void weigh(Index task) const {
    const Index h = head(task);
    const KeyGroup& own = group_of(task);
    Real* const sum = sums + task * group * v_width;
    Real* const sum_of_exp = sums_of_exp + task * group;
    std::fill_n(sum, group * v_width, Real{0});
    std::fill_n(sum_of_exp, group, Real{0});
    const Scale* const scales = row_scales + h * group;
    if (is_forgotten(task)) return;
    for_pieces(task, [&](Index key, Index slot, Index n) {
      const auto weights_of = [&](Index i) { return scores + (h * group + i) * stride + key; };
      for (Index i = 0; i < group; ++i) {
        ArrayMap weights = array(weights_of(i), n);
        if (scales[i].factor != 1) weights *= scales[i].factor;
        weights = (weights - scales[i].greatest).exp();
        sum_of_exp[i] += weights.sum();
      }
      if (own.values->mixing() == nullptr) {
        const ConstMatrix v = read(own, *own.values, h, slot, n);
        if (rows_at_once > 1)
          gemm(Matrix(sum, group, v_width), ConstMatrix(weights_of(0), group, n, stride), v,
               Write::add);
        else
          for (Index i = 0; i < group; ++i) add_weighted(sum + i * v_width, weights_of(i), v);
        return;
      }
      Real* const products = workspace() + products_at;
      for_mixed(*own.values, h, slot, n,
                [&](Index i, const ConstMatrix& v, const Real* mixing, Index apart) {
                  const Index row = i - h * group;
                  const Real* const weights = weights_of(row);
                  for (Index j = 0; j < n; ++j) products[j] = weights[j] * mixing[j * apart];
                  add_weighted(sum + row * v_width, products, v);
                });
    });
  }

  void add_chunks(Index h, Index i) const {
    ArrayMap total = array(out + (h * group + i) * v_width, v_width);
    total.setZero();
    Real sum_of_exp =
        sinks == nullptr ? Real{0} : std::exp(sink(h, i) - row_scales[h * group + i].greatest);
    for (Index c = 0; c < chunks; ++c) {
      total += array(static_cast<const Real*>(sums) + place(h, c, i) * v_width, v_width);
      sum_of_exp += sums_of_exp[place(h, c, i)];
    }
    total /= sum_of_exp;
  }

  // sum += weights v, four rows at a time: the sum is read and written less often.
  void add_weighted(Real* sum, const Real* weights, const ConstMatrix& v) const {
    ArrayMap total = array(sum, v_width);
    const auto row = [&](Index j) { return array(v.data + j * v.stride, v_width); };
    Index j = 0;
    for (; j + 4 <= v.rows; j += 4) {
      total += weights[j] * row(j) + weights[j + 1] * row(j + 1) + weights[j + 2] * row(j + 2) +
               weights[j + 3] * row(j + 3);
    }
    for (; j < v.rows; ++j) total += weights[j] * row(j);
  }

  Shape shape;
  const Real* q;
  Real* out;
  const AttentionOptions& options;
  const Real* sinks;  // [H], or null
  bool by_norm;       // the factor of a row depends on its scores
  Real factor;        // of all scores, apart from the norm of their row
  Index v_width;
  KeyGroup tokens, pooled;
  Index count = 0, chunks = 0;  // keys that the token reads, and their chunks
  Index heads, group;           // heads of tasks, and query heads that share one
  Index rows_at_once;           // query heads of a group that go into one product
  Index piece_keys;             // keys that are read at a time
  // Scratch per thread, in numbers: converted rows, from `weights_at` the weights that mix them,
  // from `products_at` weighted scores.
  Index piece, weights_at, products_at;
  Index stride = 0;  // between rows of scores, so that each piece starts aligned
  Real* scores;      // [B, H, stride]
  Index threads_here;
  Real* converted;    // [threads_here, piece]
  Real* sums;         // [tasks, group, v_width]
  Real* sums_of_exp;  // [tasks, group]
  Extent* extents;    // [tasks, group]
  Scale* row_scales;  // [B, H]
  // With forget gates, [tasks, group]: the sum of the log gates of the task's tokens, then of those
  // of all later tasks.
  double* gate_sums = nullptr;
};

}  // namespace

void attend_newest(Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                   const AttentionOptions& options, Var out) {
  NewestToken(tape, q, keys, values, options, out).run();
}

}  // namespace headcount
