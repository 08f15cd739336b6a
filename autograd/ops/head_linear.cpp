#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products/products.h"

namespace headcount {

// With W_h the rows of head h's block, as they are stored or transposed:
//   y_h = x_h W_h, dx_h = dy_h W_h^T, dW_h = x_h^T dy_h
Var head_linear(Var x, Var weight, Index first, Index count, Stored stored) {
  const bool transposed = stored == Stored::transposed;
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x), w_shape = tape.shape(weight);
  require(shape.rank() == 4 && w_shape.rank() == 2 && shape[2] > 0 && w_shape[0] % shape[2] == 0,
          Op::head_linear, "wants [B, T, H, in] and a weight [H block, r], got {} and {}", shape,
          w_shape);
  const Index rows = shape[0] * shape[1], heads = shape[2], r = w_shape[1];
  const Index block = w_shape[0] / heads;
  require(first >= 0 && count > 0 && first + count <= block, Op::head_linear,
          "rows {} to {} are not in a head's block of {}", first, first + count - 1, block);
  const Index in = transposed ? r : count, out = transposed ? count : r;
  require(shape[3] == in, Op::head_linear, "heads must be {} wide, got {}", in, shape);
  const Var y = tape.record(Op::head_linear, shape.with_last(out), {x, weight});
  if (tape.dry(y, Count(shape.size()) * out)) return y;
  const ConstMatrix xm(tape.value(x), rows, heads * in), wm(tape.value(weight), heads * block, r);
  Real* const yv = tape.value(y);
  const Index chunk = task_chunk(std::int64_t{rows} * in * out);
  const auto of_head = [](const ConstMatrix& all, Index h, Index width) {
    return all.column_range(h * width, (h + 1) * width);
  };
  const auto weight_of = [=](Index h) {  // [in, out]
    const ConstMatrix w = wm.row_range(h * block + first, h * block + first + count);
    return transposed ? w.transpose() : w;
  };
  parallel_for(heads, chunk, [=](Index h) {
    gemm(Matrix(yv + h * out, rows, out, heads * out), of_head(xm, h, in), weight_of(h));
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const ConstMatrix dym(dy, rows, heads * out);
    const auto dy_of = [=](Index h) { return of_head(dym, h, out); };
    if (const GradientSink dx = t.gradient_sink(x)) {
      parallel_for(heads, chunk, [=](Index h) {
        gemm(Matrix(dx.data + h * in, rows, in, heads * in), dy_of(h), weight_of(h).transpose(),
             dx.write);
      });
    }
    if (const GradientSink dw = sink_of_parts(t, weight)) {
      parallel_for(heads, chunk, [=](Index h) {
        const ConstMatrix x_h = of_head(xm, h, in);
        const Matrix into(dw.data + (h * block + first) * r, count, r);
        const ConstMatrix left = transposed ? dy_of(h) : x_h;
        gemm(into, left.transpose(), transposed ? x_h : dy_of(h), Write::add);
      });
    }
  });
  return y;
}

}  // namespace headcount
