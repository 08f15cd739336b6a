#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

namespace {

// Returns true if b can be broadcast over the leading dimensions of a: its shape is a's or a's
// trailing dimensions.
bool trails(const Shape& a, const Shape& b) {
  if (b.rank() > a.rank()) return false;
  for (int i = 1; i <= b.rank(); ++i) {
    if (a[-i] != b[-i]) return false;
  }
  return true;
}

// y = forward(a, b), da = a_part(dy, a, b), db = b_part(dy, a, b), elementwise; db is summed over
// the rows for which b is repeated.
template <class Forward, class APart, class BPart>
Var elementwise(Op op, Var a, Var b, Forward forward, APart a_part, BPart b_part) {
  Tape& tape = tape_of(a);
  const Shape shape = tape.shape(a);
  require(trails(shape, tape.shape(b)), op,
          "shapes {} and {} do not agree; the second must be the trailing part of the first", shape,
          tape.shape(b));
  const Index width = tape.shape(b).size();
  const Index rows = width == 0 ? 0 : shape.size() / width;
  const Var y = tape.record(op, shape, {a, b});
  if (tape.dry(y)) return y;
  // Threads share out the elements of the single row if shapes are equal, or the rows if b is
  // broadcast.
  const auto for_each = [rows, width](const auto& body) {
    if (rows == 1) {
      parallel_chunks(width, kElementChunk, [&](Index begin, Index end) { body(0, begin, end); });
    } else {
      parallel_for(rows, row_chunk(width), [&](Index row) { body(row * width, 0, width); });
    }
  };
  {
    const Real *x = tape.value(a), *z = tape.value(b);
    Real* out = tape.value(y);
    for_each([=](Index row, Index begin, Index end) {
      for (Index i = begin; i < end; ++i) out[row + i] = forward(x[row + i], z[i]);
    });
  }
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const Real *x = t.value(a), *z = t.value(b);
    if (const GradientSink da = t.gradient_sink(a)) {
      for_each([=](Index row, Index begin, Index end) {
        for (Index i = begin; i < end; ++i) da.put(row + i, a_part(dy[row + i], x[row + i], z[i]));
      });
    }
    // If the shapes are equal, the second term of a sum takes over the buffer of dy.
    if (op == Op::add && t.shape(a) == t.shape(b)) return t.pass_gradient(y, b);
    put_row_sum(t.pool(), t.gradient_sink(b), rows, width, [=](Index row, Index i) {
      return b_part(dy[row * width + i], x[row * width + i], z[i]);
    });
  });
  return y;
}

}  // namespace

// y = a + b; da = dy, db = dy.
Var add(Var a, Var b) {
  return elementwise(
      Op::add, a, b, [](Real x, Real z) { return x + z; }, [](Real dy, Real, Real) { return dy; },
      [](Real dy, Real, Real) { return dy; });
}

// y = a - b; da = dy, db = -dy.
Var subtract(Var a, Var b) {
  return elementwise(
      Op::subtract, a, b, [](Real x, Real z) { return x - z; },
      [](Real dy, Real, Real) { return dy; }, [](Real dy, Real, Real) { return -dy; });
}

// y = a b; da = dy b, db = dy a.
Var multiply(Var a, Var b) {
  return elementwise(
      Op::multiply, a, b, [](Real x, Real z) { return x * z; },
      [](Real dy, Real, Real z) { return dy * z; }, [](Real dy, Real x, Real) { return dy * x; });
}

// y = a / b; da = dy / b, db = -dy a / b^2.
Var divide(Var a, Var b) {
  return elementwise(
      Op::divide, a, b, [](Real x, Real z) { return x / z; },
      [](Real dy, Real, Real z) { return dy / z; },
      [](Real dy, Real x, Real z) { return -dy * x / (z * z); });
}

// y = sum of x, in order and in double; dx = dy everywhere.
Var sum(Var x) {
  Tape& tape = tape_of(x);
  const Index count = tape.shape(x).size();
  const Var y = tape.record(Op::sum, {}, {x});
  if (tape.dry(y)) return y;
  const Real* const from = tape.value(x);
  double total = 0;
  for (Index i = 0; i < count; ++i) total += static_cast<double>(from[i]);
  *tape.value(y) = static_cast<Real>(total);
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (const GradientSink dx = t.gradient_sink(x)) {
      for (Index i = 0; i < count; ++i) dx.put(i, *dy);
    }
  });
  return y;
}

}  // namespace headcount
