#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

// y is x under another shape, in the same memory; dx = dy.
Var reshape(Var x, const Shape& shape) {
  Tape& tape = tape_of(x);
  require(tape.shape(x).size() == shape.size(), Op::reshape, "shape ", tape.shape(x),
          " cannot become ", shape);
  const Var y = tape.record_alias(Op::reshape, shape, x);
  tape.finish(y, [=](Tape& t, const Real*) { t.pass_gradient(y, x); });
  return y;
}

namespace {

// The extents around two exchanged dimensions: [outer, first, middle, second, inner].
struct Exchange {
  Index outer = 1, first = 1, middle = 1, second = 1, inner = 1;

  Exchange(const Shape& shape, int low, int high) {
    for (int i = 0; i < low; ++i) outer *= shape[i];
    first = shape[low];
    for (int i = low + 1; i < high; ++i) middle *= shape[i];
    second = shape[high];
    for (int i = high + 1; i < shape.rank(); ++i) inner *= shape[i];
  }

  // Calls body(offset in x, offset in y) for each run of `inner` elements.
  template <class Body>
  void for_each(const Body& body) const {
    parallel_chunks(outer * second, 1 + kElementChunk / (1 + first * middle * inner),
                    [&](Index begin, Index end) {
                      for (Index i = begin; i < end; ++i) runs(i / second, i % second, body);
                    });
  }

 private:
  template <class Body>
  void runs(Index o, Index s, const Body& body) const {
    for (Index m = 0; m < middle; ++m) {
      for (Index f = 0; f < first; ++f) {
        body((((o * first + f) * middle + m) * second + s) * inner,
             (((o * second + s) * middle + m) * first + f) * inner);
      }
    }
  }
};

}  // namespace

// y[.. j .. i ..] = x[.. i .. j ..]; dx the same way back.
Var transpose(Var x, int first, int second) {
  Tape& tape = tape_of(x);
  const Shape from = tape.shape(x);
  const int low = std::min(first, second), high = std::max(first, second);
  require(low >= 0 && high < from.rank() && low != high, Op::transpose, "dimensions ", first,
          " and ", second, " cannot be exchanged in ", from);
  Shape to;
  for (int i = 0; i < from.rank(); ++i) to.append(from[i == low ? high : i == high ? low : i]);
  const Exchange exchange(from, low, high);
  const Var y = tape.record(Op::transpose, to, {x});
  const Real* in = tape.value(x);
  Real* out = tape.value(y);
  exchange.for_each([=](Index i, Index j) { std::copy_n(in + i, exchange.inner, out + j); });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (const GradientSink dx = t.gradient_sink(x)) {
      exchange.for_each([=](Index i, Index j) {
        for (Index k = 0; k < exchange.inner; ++k) dx.put(i + k, dy[j + k]);
      });
    }
  });
  return y;
}

// y = columns [begin, begin + size) of x. The pieces of one x share its gradient: whichever comes
// first in backward clears it, and all add.
Var columns(Var x, Index begin, Index size) {
  Tape& tape = tape_of(x);
  require(
      tape.shape(x).rank() > 0 && begin >= 0 && size >= 0 && begin + size <= tape.shape(x).last(),
      Op::split, "columns ", begin, " to ", begin + size - 1, " are not in ", tape.shape(x));
  const Index width = tape.shape(x).last(), rows = tape.shape(x).rows();
  const Var y = tape.record(Op::split, tape.shape(x).with_last(size), {x});
  const Real* in = tape.value(x) + begin;
  Real* out = tape.value(y);
  parallel_chunks(rows, row_chunk(size), [=](Index first, Index last) {
    for (Index row = first; row < last; ++row)
      std::copy_n(in + row * width, size, out + row * size);
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x);
    if (!dx) return;
    parallel_chunks(rows, row_chunk(width), [=](Index first, Index last) {
      for (Index row = first; row < last; ++row) {
        if (!dx.accumulate) std::fill_n(dx.data + row * width, width, Real{0});
        Real* to = dx.data + row * width + begin;
        for (Index i = 0; i < size; ++i) to[i] += dy[row * size + i];
      }
    });
  });
  return y;
}

// y_i = columns of x, side by side; dx = [dy_1, dy_2, ...].
std::vector<Var> split(Var x, std::span<const Index> sizes) {
  const Shape& shape = tape_of(x).shape(x);
  Index total = 0;
  for (const Index size : sizes) total += size;
  require(shape.rank() > 0 && total == shape.last(), Op::split, "the sizes add up to ", total,
          ", the last dimension of ", shape, " is another");
  std::vector<Var> pieces;
  Index begin = 0;
  for (const Index size : sizes) {
    pieces.push_back(columns(x, begin, size));
    begin += size;
  }
  return pieces;
}

// y = [a, b] along the last dimension; da, db are dy's columns, db summed over what b was repeated
// for.
Var concat(Var a, Var b) {
  Tape& tape = tape_of(a);
  const Shape left = tape.shape(a), right = tape.shape(b);
  bool agree = left.rank() == right.rank() && left.rank() > 0;
  std::array<Index, Shape::kMaxRank> extents{1, 1, 1, 1},
      strides{};  // leading ones; row strides in b
  Index stride = 1;
  for (int i = left.rank() - 2; agree && i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i + Shape::kMaxRank - left.rank() + 1);
    agree = left[i] == right[i] || right[i] == 1;
    extents[at] = left[i];
    strides[at] = right[i] == 1 ? 0 : stride;
    stride *= right[i];
  }
  require(agree, Op::concat, "shapes ", left, " and ", right, " do not agree");
  const Index rows = left.rows(), a_width = left.last(), b_width = right.last();
  const Index width = a_width + b_width;
  const auto b_row = [=](Index row) {
    Index result = 0;
    for (std::size_t i = Shape::kMaxRank; i-- > 1;) {
      result += row % extents[i] * strides[i];
      row /= extents[i];
    }
    return result;
  };
  const Var y = tape.record(Op::concat, left.with_last(width), {a, b});
  const Real *x = tape.value(a), *z = tape.value(b);
  Real* out = tape.value(y);
  parallel_chunks(rows, row_chunk(width), [=](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      std::copy_n(x + row * a_width, a_width, out + row * width);
      std::copy_n(z + b_row(row) * b_width, b_width, out + row * width + a_width);
    }
  });
  const Index b_rows = right.rows();
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (const GradientSink da = t.gradient_sink(a)) {
      parallel_chunks(rows, row_chunk(width), [=](Index begin, Index end) {
        for (Index row = begin; row < end; ++row) {
          for (Index i = 0; i < a_width; ++i) da.put(row * a_width + i, dy[row * width + i]);
        }
      });
    }
    if (const GradientSink db = t.gradient_sink(b)) {
      if (!db.accumulate) std::fill_n(db.data, b_rows * b_width, Real{0});
      for (Index row = 0; row < rows; ++row) {
        Real* to = db.data + b_row(row) * b_width;
        for (Index i = 0; i < b_width; ++i) to[i] += dy[row * width + a_width + i];
      }
    }
  });
  return y;
}

}  // namespace headcount
