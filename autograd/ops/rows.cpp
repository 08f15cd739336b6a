#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

Rows Rows::columns(Index first, Index width) const {
  require(first >= 0 && width > 0 && first + width <= width_, Op::read_rows, "columns ", first,
          " to ", first + width - 1, " are not among ", width_);
  Rows result = *this;
  result.first_ += first;
  result.width_ = width;
  return result;
}

Shape Rows::shape() const {
  if (cache_ == nullptr) return x_.shape().with_last(width_);
  const Index heads = mixing_ != nullptr ? mixing_->width() / cache_->heads() : cache_->heads();
  return {cache_->sequences(), cache_->held(tokens_), heads, width_};
}

Rows Rows::mixed_by(const Rows& weights) const {
  require((cache_ == nullptr) == (weights.cache_ == nullptr), Op::read_rows,
          "rows and their weights must both be on the tape or both be cached");
  const bool cached = cache_ != nullptr;
  const Index heads = cached ? cache_->heads() : x_.shape()[2];
  const Index weight_heads = cached ? weights.cache_->heads() : weights.x_.shape()[2];
  require(weight_heads == 1 && weights.width_ % heads == 0 && tokens_ == weights.tokens_,
          Op::read_rows, "one row of a multiple of ", heads, " numbers mixes ", heads,
          " rows, not ", weight_heads, " of ", weights.width_);
  if (!cached) {
    const Shape shape = x_.shape();
    Tape& tape = *x_.tape;
    const Var w =
        reshape(read_rows(tape, weights), {shape[0], shape[1], weights.width_ / heads, heads});
    return matrix_product(w, read_rows(tape, *this));
  }
  require(
      weights.cache_->capacity() == cache_->capacity() && weights.width_ == weights.cache_->width(),
      Op::read_rows, "weights of rows must be whole and cached for the same tokens");
  Rows result = *this;
  result.mixing_ = weights.cache_;
  return result;
}

namespace {

// Writes the mixed rows of sequence b, row h of each token, to `out` [count, H, width].
void write_mixed(Tape& tape, const Rows& rows, Index b, Index count, Real* out) {
  const RowCache &cache = *rows.cache(), &mixing = *rows.mixing();
  const Index width = rows.width(), terms = cache.heads(), heads = mixing.width() / terms;
  Real* const row_scratch = tape.scratch(count * width);
  Real* const weight_scratch = tape.scratch(count * mixing.width());
  const ConstMatrix weights = mixing.read(b, 0, 0, count, 0, mixing.width(), weight_scratch);
  std::fill_n(out, count * heads * width, Real{0});
  for (Index r = 0; r < terms; ++r) {
    const ConstMatrix from = cache.read(b, r, 0, count, rows.first(), width, row_scratch);
    for (Index h = 0; h < heads; ++h)
      add_mixed(from, weights, h * terms + r, out + h * width, heads * width);
  }
}

}  // namespace

// Rows of a cache are copied as a constant of the tape.
Var read_rows(Tape& tape, const Rows& rows) {
  const Index first = rows.first(), width = rows.width();
  if (rows.cache() == nullptr) {
    return width == tape.shape(rows.x()).last() ? rows.x() : columns(rows.x(), first, width);
  }
  const RowCache& cache = *rows.cache();
  const Shape shape = rows.shape();
  const Index count = shape[1], heads = shape[2];
  const Var y = tape.record(Op::read_rows, shape, {});
  Real* const scratch = tape.scratch(count * width);
  for (Index b = 0; b < cache.sequences(); ++b) {
    Real* const out = tape.value(y) + b * count * heads * width;
    if (rows.mixing() != nullptr) {
      write_mixed(tape, rows, b, count, out);
      continue;
    }
    for (Index head = 0; head < heads; ++head) {
      const ConstMatrix from = cache.read(b, head, 0, count, first, width, scratch);
      for (Index t = 0; t < count; ++t)
        std::copy_n(from.data + t * from.stride, width, out + (t * heads + head) * width);
    }
  }
  tape.finish(y, [](Tape&, const Real*) {});
  return y;
}

Var read_rows(Tape& tape, const Rows& rows, const PickedRows& picked, Index queries) {
  const Shape shape = rows.shape();
  const Index heads = shape[2], width = rows.width(), all = queries * picked.most;
  require(rows.mixing() == nullptr && queries > 0, Op::read_rows,
          "reads picked rows of queries, and none that are mixed");
  const Var y = tape.record(Op::read_rows, {shape[0], all, heads, width}, {});
  Real* const out = tape.value(y);
  const Real* const x = rows.cache() == nullptr ? tape.value(rows.x()) : nullptr;
  const Index whole = x == nullptr ? 0 : tape.shape(rows.x()).last();
  parallel_for(shape[0] * all * heads, row_chunk(width), [&](Index place) {
    const Index b = place / heads / all, head = place % heads, row = picked.rows[place / heads];
    Real* const to = out + place * width;
    if (row < 0) {
      std::fill_n(to, width, Real{0});
    } else if (x != nullptr) {
      std::copy_n(x + ((b * shape[1] + row) * heads + head) * whole + rows.first(), width, to);
    } else {
      const Real* const from = rows.cache()->read(b, head, row, 1, rows.first(), width, to).data;
      if (from != to) std::copy_n(from, width, to);
    }
  });
  tape.finish(y, [](Tape&, const Real*) {});
  return y;
}

}  // namespace headcount
