#include <algorithm>
#include <array>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

// y is x under another shape, in the same memory; dx = dy.
Var reshape(Var x, const Shape& shape) {
  Tape& tape = tape_of(x);
  require(tape.shape(x).size() == shape.size(), Op::reshape, "shape {} cannot become {}",
          tape.shape(x), shape);
  const Var y = tape.record_alias(Op::reshape, shape, x);
  tape.finish(y, [=](Tape& t, const Real*) { t.pass_gradient(y, x); });
  return y;
}

namespace {

// Offset of each row of a tensor in another tensor that has strides of its own, 0 for a dimension
// along which it is repeated.
struct Strides {
  std::array<Index, Shape::kMaxRank> extents{1, 1, 1, 1}, strides{};
  int rank = 0;

  void add(Index extent, Index stride) {
    extents[static_cast<std::size_t>(rank)] = extent;
    strides[static_cast<std::size_t>(rank++)] = stride;
  }
  Index offset(Index row) const {
    Index result = 0;
    for (auto i = static_cast<std::size_t>(rank); i-- > 0;) {
      result += row % extents[i] * strides[i];
      row /= extents[i];
    }
    return result;
  }
};

}  // namespace

// y[.. j .. i ..] = x[.. i .. j ..]; dx is dy with the same exchange.
Var transpose(Var x, int first, int second) {
  Tape& tape = tape_of(x);
  const Shape from = tape.shape(x);
  const int low = std::min(first, second), high = std::max(first, second);
  require(low >= 0 && high < from.rank() && low != high, Op::transpose,
          "dimensions {} and {} cannot be exchanged in {}", first, second, from);
  Shape to;
  Strides in_x;      // the rows of y
  Index stride = 1;  // in x, between elements of a row of y
  for (int i = 0; i < from.rank(); ++i) {
    const int at = i == low ? high : i == high ? low : i;
    stride = 1;
    for (int j = at + 1; j < from.rank(); ++j) stride *= from[j];
    to.append(from[at]);
    if (i + 1 < from.rank()) in_x.add(from[at], stride);
  }
  const Index width = to.last();
  const Var y = tape.record(Op::transpose, to, {x});
  if (tape.dry(y)) return y;
  const Real* in = tape.value(x);
  Real* out = tape.value(y);
  parallel_for(to.rows(), row_chunk(width), [=](Index row) {
    const Real* const first_in = in + in_x.offset(row);
    for (Index i = 0; i < width; ++i) out[row * width + i] = first_in[i * stride];
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x);
    if (!dx) return;
    parallel_for(to.rows(), row_chunk(width), [=](Index row) {
      const Index start = in_x.offset(row);
      for (Index i = 0; i < width; ++i) dx.put(start + i * stride, dy[row * width + i]);
    });
  });
  return y;
}

// y = columns [begin, begin + size) of x. Pieces of one x share its gradient.
Var columns(Var x, Index begin, Index size) {
  Tape& tape = tape_of(x);
  require(
      tape.shape(x).rank() > 0 && begin >= 0 && size >= 0 && begin + size <= tape.shape(x).last(),
      Op::split, "columns {} to {} are not in {}", begin, begin + size - 1, tape.shape(x));
  const Index width = tape.shape(x).last(), rows = tape.shape(x).rows();
  const Var y = tape.record(Op::split, tape.shape(x).with_last(size), {x});
  if (tape.dry(y)) return y;
  const Real* in = tape.value(x) + begin;
  Real* out = tape.value(y);
  parallel_for(rows, row_chunk(size),
               [=](Index row) { std::copy_n(in + row * width, size, out + row * size); });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = sink_of_parts(t, x);
    if (!dx) return;
    parallel_for(rows, row_chunk(width),
                 [=](Index row) { put(dx, row * width + begin, array(dy + row * size, size)); });
  });
  return y;
}

// y_i = columns of x, side by side; dx = [dy_1, dy_2, ...].
std::vector<Var> split(Var x, std::span<const Index> sizes) {
  const Shape shape = tape_of(x).shape(x);
  Index total = 0;
  for (const Index size : sizes) total += size;
  require(shape.rank() > 0 && total == shape.last(), Op::split,
          "the sizes add up to {}, but must add up to the last dimension of {}", total, shape);
  std::vector<Var> pieces;
  Index begin = 0;
  for (const Index size : sizes) {
    pieces.push_back(columns(x, begin, size));
    begin += size;
  }
  return pieces;
}

// y = [a, b] along the last dimension; da and db are dy's columns, db summed over the rows for
// which b is repeated.
Var concat(Var a, Var b) {
  Tape& tape = tape_of(a);
  const Shape left = tape.shape(a), right = tape.shape(b);
  bool agree = left.rank() == right.rank() && left.rank() > 0;
  Strides in_b;
  for (int i = 0; agree && i + 1 < left.rank(); ++i) {
    agree = left[i] == right[i] || right[i] == 1;
    Index stride = 1;
    for (int j = i + 1; j + 1 < right.rank(); ++j) stride *= right[j];
    in_b.add(left[i], right[i] == 1 ? 0 : stride);
  }
  require(agree, Op::concat, "shapes {} and {} do not agree", left, right);
  const Index rows = left.rows(), a_width = left.last(), b_width = right.last();
  const Index width = a_width + b_width;
  const Var y = tape.record(Op::concat, left.with_last(width), {a, b});
  if (tape.dry(y)) return y;
  const Real *x = tape.value(a), *z = tape.value(b);
  Real* out = tape.value(y);
  parallel_for(rows, row_chunk(width), [=](Index row) {
    std::copy_n(x + row * a_width, a_width, out + row * width);
    std::copy_n(z + in_b.offset(row) * b_width, b_width, out + row * width + a_width);
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (const GradientSink da = t.gradient_sink(a)) {
      parallel_for(rows, row_chunk(width),
                   [=](Index row) { put(da, row * a_width, array(dy + row * width, a_width)); });
    }
    if (const GradientSink db = sink_of_parts(t, b)) {
      for (Index row = 0; row < rows; ++row)
        array(db.data + in_b.offset(row) * b_width, b_width) +=
            array(dy + row * width + a_width, b_width);
    }
  });
  return y;
}

}  // namespace headcount
