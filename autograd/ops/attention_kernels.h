#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <type_traits>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

/// Kernels of `attention`: for many queries, in tiles, and for decoding. Not part of the public
/// interface. Indices: b sequence, h query head, i query, j key, r and c row and column of a tile.
namespace headcount {

inline constexpr Index kQueryTile = 64;
inline constexpr Index kKeyTile = 64;
// A tile of queries of stacked heads is one of fewer tokens, which see fewer keys. Its tiles of
// keys hold all that it sees of a window of 128 tokens, begin at multiples of kStackedKeyStart and
// end with the last key that is seen.
inline constexpr Index kStackedKeyTile = 192;
inline constexpr Index kStackedKeyStart = 16;
inline constexpr Real kInfinity = std::numeric_limits<Real>::infinity();

using Tile = Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
inline Matrix matrix(Tile& tile) { return {tile.data(), tile.rows(), tile.cols()}; }

/// View of the rows of each head in a tensor [B, length, heads, width], or of some of their
/// columns.
template <class Number>
struct HeadRows {
  Number* data = nullptr;
  Index batch_stride = 0, row_stride = 0, head_stride = 0;
  Index width = 0;

  /// Columns [first, first + columns) of a tensor [B, length, heads, row_width].
  static HeadRows of(Number* tensor, Index length, Index heads, Index row_width, Index first,
                     Index columns) {
    const Index row_stride = heads * row_width;
    return {tensor + first, length * row_stride, row_stride, row_width, columns};
  }
  HeadRows columns(Index first, Index count) const {
    return {data + first, batch_stride, row_stride, head_stride, count};
  }
  Index offset(Index b, Index row, Index h) const {
    return b * batch_stride + row * row_stride + h * head_stride;
  }
  Number* at(Index b, Index row, Index h) const { return data + offset(b, row, h); }
  /// Rows [begin, begin + count) of head h of sequence b.
  auto rows(Index b, Index h, Index begin, Index count) const {
    using Result = std::conditional_t<std::is_const_v<Number>, ConstMatrix, Matrix>;
    return Result(at(b, begin, h), count, width, row_stride);
  }
};

/// View of the keys or of the values, as the kernels read them.
struct RowView {
  HeadRows<const Real> stored;
  Index group = 1;  // query heads that read one head
  Index width = 0;
  const Rows* converted = nullptr;  // instead of `stored`: cached rows to convert tile by tile

  /// Rows [begin, begin + count) that query head h of sequence b reads, at most kStackedKeyTile.
  /// `scratch` has room for `scratch_size()` numbers; rows that are converted go there.
  ConstMatrix rows(Index b, Index h, Index begin, Index count, Real* scratch = nullptr) const {
    return converted != nullptr ? converted_rows(b, h, begin, count, scratch)
                                : stored.rows(b, h / group, begin, count);
  }
  Index scratch_size() const;

 private:
  ConstMatrix converted_rows(Index b, Index h, Index begin, Index count, Real* scratch) const;
};

/// View of `rows` for `query_heads` heads. Cached rows of another type than Real, and rows to mix,
/// are converted in tiles: all rows at once would take the memory that such a cache saves.
RowView view_of(Tape& tape, const Rows& rows, Index query_heads);
/// Throws ShapeError unless the inputs of `attention` fit together.
void check_attention(const Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                     const AttentionOptions& options);

/// Greatest number of parts that the columns of keys may be split into.
inline constexpr std::size_t kMaxKeyParts = 4;

struct KeyParts {
  std::array<RowView, kMaxKeyParts> parts;
  std::size_t count = 0;

  const RowView* begin() const { return parts.data(); }
  const RowView* end() const { return parts.data() + count; }
};

/// One call of `attention`, for forward and backward.
struct AttentionProblem {
  Index batch, length, heads;  // of the queries
  HeadRows<const Real> q;
  KeyParts keys;
  RowView values;
  Index key_count;
  Real scale;
  bool causal;
  Index window;
  Real cap;  // of scores after their scale; 0: none
  RowScale row_scale;
  Dropout dropout;
  const std::uint8_t* key_mask;  // [B, S] or null
  RowSoftmax* softmax;           // [B, H, T]
  Real* row_factor;              // [B, H, T]: the scale times the factor of the row; or null
  const Real* sinks = nullptr;   // [H]: scores that no value answers; or null
  Real* tiles = nullptr;         // scratch for one tile of converted rows per thread
  Index tile_stride = 0;         // numbers of scratch per thread
  // [B, H, S]: sums of the log forget gates up to each key; or null.
  const double* gate_sums = nullptr;
  Index block = 0;           // tokens that a pooled row stands for; 0: rows of single tokens
  Index first_position = 0;  // of the queries, for pooled rows
  Selection selection = {};  // of the rows that are seen; without rows: all are read
  Index first_column = 0, columns = 0;  // of these rows among those of both groups, and of both
  // Heads of the call that are stacked: each token has a query for each of them, side by side, and
  // `heads` is 1. Else 1.
  Index stacked = 1;

  Index row(Index b, Index h, Index i) const { return (b * heads + h) * length + i; }
  Index token(Index i) const { return i / stacked; }
  Index tokens() const { return length / stacked; }
  Index call_heads() const { return heads * stacked; }
  // Head of the call that query i of head h is of, and its row in a tensor [B, H, T].
  Index call_head(Index h, Index i) const { return h * stacked + i % stacked; }
  Index call_row(Index b, Index h, Index i) const {
    return (b * call_heads() + call_head(h, i)) * tokens() + token(i);
  }
  Index macs_per_query() const { return key_count * (q.width + values.width); }
  bool drops() const { return dropout.threshold > 0; }
  Real* own_tile() const { return tiles + this_thread() * tile_stride; }

  // Key of the token that asks query i.
  Index own_key(Index i) const { return std::max<Index>(0, key_count - tokens() + token(i)); }
  // Without a mask, query i may see keys [first_key(i), end_key(i)).
  Index end_key(Index i) const {
    if (block > 0) return std::min(key_count, (first_position + token(i) + 1) / block);
    return causal ? key_count - tokens() + token(i) + 1 : key_count;
  }
  Index first_key(Index i) const {
    return window > 0 ? std::max<Index>(0, end_key(i) - window) : 0;
  }

  // Returns true if query i sees keys that it does not read.
  bool leaves_out(Index i) const {
    return selection.rows.rows != nullptr && selection.rows.most < end_key(i) - first_key(i);
  }
  // Rows of [j, j + count) that query i of sequence b picked.
  std::span<const std::int32_t> picked_of(Index b, Index i, Index j, Index count) const {
    const std::int32_t* const list = selection.rows.of(b, token(i), tokens());
    const std::int32_t* const end = list + std::min(selection.rows.most, end_key(i) - first_key(i));
    return {std::lower_bound(list, end, j), std::lower_bound(list, end, j + count)};
  }

  // Calls body(j, columns) for the key tiles that queries [begin, end) see.
  template <class Body>
  void for_key_tiles(Index begin, Index end, const Body& body) const {
    const bool narrow = stacked > 1;
    const Index start = narrow ? kStackedKeyStart : kKeyTile;
    const Index tile = narrow ? kStackedKeyTile : kKeyTile;
    const Index last = end_key(end - 1), there = narrow ? last : key_count;
    for (Index j = first_key(begin) / start * start; j < last; j += tile)
      body(j, std::min(tile, there - j));
  }

  // Calls body(part, first column of the queries) for each part of the keys.
  template <class Body>
  void for_key_parts(const Body& body) const {
    Index column = 0;
    for (const RowView& part : keys) {
      body(part, column);
      column += part.width;
    }
  }

  // s = q k^T for a tile, unscaled; scores add up over the parts of the keys.
  void raw_scores(Tile& s, Index b, Index h, Index i, Index j) const {
    for_key_parts([&](const RowView& part, Index column) {
      gemm(matrix(s), q.columns(column, part.width).rows(b, h, i, s.rows()),
           part.rows(b, h, j, s.cols(), own_tile()).transpose(), add_if(column > 0));
    });
  }
  // Calls body(r, c) for each key of a tile that its query may not see.
  template <class Body>
  void for_hidden(const Tile& s, Index b, Index i, Index j, const Body& body) const {
    for (Index r = 0; r < s.rows(); ++r) {
      const Index first = std::clamp<Index>(first_key(i + r) - j, 0, s.cols());
      const Index last = std::clamp<Index>(end_key(i + r) - j, 0, s.cols());
      for (Index c = 0; c < first; ++c) body(r, c);
      for (Index c = last; c < s.cols(); ++c) body(r, c);
      if (leaves_out(i + r)) {
        Index next = first;
        for (const std::int32_t row : picked_of(b, i + r, j, last)) {
          for (; next < row - j; ++next) body(r, next);
          ++next;
        }
        for (; next < last; ++next) body(r, next);
      }
      if (key_mask == nullptr) continue;
      for (Index c = first; c < last; ++c) {
        if (key_mask[b * key_count + j + c] == 0) body(r, c);
      }
    }
  }
  void scaled_scores(Tile& s, Index b, Index h, Index i, Index j) const {
    raw_scores(s, b, h, i, j);
    if (row_scale == RowScale::one) {
      s *= scale;
    } else {
      s.colwise() *= array(row_factor + row(b, h, i), s.rows());
    }
  }
  bool masked(Index b, Index j) const {
    return key_mask != nullptr && key_mask[b * key_count + j] == 0;
  }
  // Adds the log gates between keys and queries: differences of sums, rounded after subtraction.
  void add_gates(Tile& s, Index b, Index h, Index i, Index j) const {
    const double* const sums = gate_sums + (b * heads + h) * key_count;
    for (Index r = 0; r < s.rows(); ++r) {
      const double own = sums[own_key(i + r)];
      const Index cols = s.cols();
      Real* const to = &s(r, 0);
      for (Index c = 0; c < cols; ++c) to[c] += static_cast<Real>(own - sums[j + c]);
    }
  }
  // Computes the scores for the softmax: scaled, capped and gated, with -infinity for a hidden key.
  void scores(Tile& s, Index b, Index h, Index i, Index j) const {
    scaled_scores(s, b, h, i, j);
    if (cap > 0) s = cap * (s / cap).tanh();
    if (gate_sums != nullptr) add_gates(s, b, h, i, j);
    for_hidden(s, b, i, j, [&](Index r, Index c) { s(r, c) = -kInfinity; });
  }

  // Sets m to the dropout multipliers of a tile's elements.
  void multipliers(Tile& m, Index b, Index h, Index i, Index j) const {
    for (Index r = 0; r < m.rows(); ++r) {
      const Index at = call_row(b, h, i + r) * columns + first_column + j;
      dropout.multipliers(static_cast<std::uint64_t>(at), m.cols(), &m(r, 0));
    }
  }
};

/// The groups of rows that one softmax goes over, which differ in keys, values and visibility:
/// those of single tokens, and pooled rows if there are any.
struct AttentionGroups {
  std::array<AttentionProblem, 2> all;
  std::size_t count = 1;

  const AttentionProblem& tokens() const { return all.front(); }
  const AttentionProblem* begin() const { return all.data(); }
  const AttentionProblem* end() const { return all.data() + count; }
  // Calls body(group, j, columns) for the key tiles that queries [begin, end) see.
  template <class Body>
  void for_key_tiles(Index first, Index last, const Body& body) const {
    for (const AttentionProblem& group : *this)
      group.for_key_tiles(first, last, [&](Index j, Index columns) { body(group, j, columns); });
  }
};

/// Destination of the gradient of queries, keys or values; no data: the gradient is not needed. If
/// several query heads read one row, each head writes to a copy of its own.
struct RowGradient : HeadRows<Real> {
  Write write = Write::assign;

  explicit operator bool() const { return data != nullptr; }
  // Sets rows [begin, end) to zero, unless this contribution is added to earlier ones.
  void clear(Index b, Index h, Index begin, Index end) const {
    if (data == nullptr || write == Write::add) return;
    for (Index row = begin; row < end; ++row) std::fill_n(at(b, row, h), width, Real{0});
  }
};

/// Writes output rows [i, i + rows) of head h and their softmax.
void forward_tile(const AttentionGroups& groups, const HeadRows<Real>& out, Index b, Index h,
                  Index i, Index rows);

/// Writes entropy[r], nats, of the attention weights of query rows [i, i + rows) of head h; NaN for
/// a query that sees no key. If `weights` [B, H, T, S] is not null, it receives the weights of the
/// keys that are not hidden; that of a pooled row is divided among its tokens, and
/// `pooled_weights` [B, H, T, R] receives it, too. Both are null or neither is.
void stats_tile(const AttentionGroups& groups, Index b, Index h, Index i, Index rows, Real* entropy,
                Real* weights, Real* pooled_weights);

/// Writes the weights of the rows of `p` that tokens [t, t + count) of sequence b picked, summed
/// over the heads in order, to the weights of its selection.
void picked_weights_tile(const AttentionProblem& p, Index b, Index t, Index count);

/// Gradients of the rows of one group; `keys` has one entry per part.
struct GroupGradient {
  std::array<RowGradient, kMaxKeyParts> keys;
  RowGradient values;
};

/// Further results of `backward_part`, or null: the gradients of the sinks of the head, or of those
/// that are stacked; for each key [S] of a single token the sum of its scores' gradients over the
/// queries.
struct ScoreGradients {
  Real* sinks = nullptr;
  Real* key_sums = nullptr;
};

/// Writes the gradients of a part of sequence b to those of `dq` and `of_groups` that have data;
/// `dy` is the gradient of `out`. A part is a head or, of stacked heads, every `parts`-th tile of
/// queries. It writes the gradients of keys and values to its own head of `of_groups`.
void backward_part(const AttentionGroups& groups, const HeadRows<const Real>& out,
                   const HeadRows<const Real>& dy, Index b, Index part, Index parts,
                   const RowGradient& dq, const std::array<GroupGradient, 2>& of_groups,
                   const ScoreGradients& of_scores);

/// Decoding: one query per sequence and head, q [B, 1, H, Dk], over keys and values in KV caches.
/// Each cached number is read once, in the type it is stored in. Writes `out` [B, 1, H, Dv].
void attend_newest(Tape& tape, Var q, std::span<const Rows> keys, const Rows& values,
                   const AttentionOptions& options, Var out);

}  // namespace headcount
