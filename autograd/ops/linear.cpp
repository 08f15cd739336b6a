#include <algorithm>

#include "autograd/operands.h"
#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products/products.h"

namespace headcount {

// y = a b for each leading index; da = dy b^T, db = a^T dy.
Var matrix_product(Var a, Var b) {
  Tape& tape = tape_of(a);
  const Shape left = tape.shape(a), right = tape.shape(b);
  bool agree = left.rank() == right.rank() && left.rank() >= 2 && left[-1] == right[-2];
  for (int i = 0; agree && i + 2 < left.rank(); ++i) agree = left[i] == right[i];
  require(agree, Op::matrix_product, "shapes {} and {} cannot be multiplied", left, right);
  const Index m = left[-2], k = left[-1], n = right[-1];
  const Index batch = m * k == 0 ? 0 : left.size() / (m * k);
  const Index chunk = task_chunk(std::int64_t{m} * k * n);
  const Var y = tape.record(Op::matrix_product, left.with_last(n), {a, b});
  if (tape.dry(y, Count(left.size()) * n)) return y;
  const Real *x = tape.value(a), *z = tape.value(b);
  Real* out = tape.value(y);
  parallel_for(batch, chunk, [=](Index i) {
    gemm(Matrix(out + i * m * n, m, n), ConstMatrix(x + i * m * k, m, k),
         ConstMatrix(z + i * k * n, k, n));
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const Real *av = t.value(a), *bv = t.value(b);
    if (const GradientSink da = t.gradient_sink(a)) {
      parallel_for(batch, chunk, [=](Index i) {
        gemm(Matrix(da.data + i * m * k, m, k), ConstMatrix(dy + i * m * n, m, n),
             ConstMatrix(bv + i * k * n, k, n).transpose(), da.write);
      });
    }
    if (const GradientSink db = t.gradient_sink(b)) {
      parallel_for(batch, chunk, [=](Index i) {
        gemm(Matrix(db.data + i * k * n, k, n), ConstMatrix(av + i * m * k, m, k).transpose(),
             ConstMatrix(dy + i * m * n, m, n), db.write);
      });
    }
  });
  return y;
}

// y = x W^T + b over all rows at once; dx = dy W, dW = dy^T x, db = sum of dy's rows.
Var linear(Var x, Var weight, std::optional<Var> bias) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x), w_shape = tape.shape(weight);
  require(w_shape.rank() == 2 && shape.rank() > 0 && shape.last() == w_shape[1], Op::linear,
          "the weight {} wants inputs of its last extent, got {}", w_shape, shape);
  const Index rows = shape.rows(), in = w_shape[1], out = w_shape[0];
  if (bias)
    require(tape.shape(*bias) == Shape{out}, Op::linear,
            "the bias must be [{}], one number per output, is {}", out, tape.shape(*bias));
  const Var y = bias ? tape.record(Op::linear, shape.with_last(out), {x, weight, *bias})
                     : tape.record(Op::linear, shape.with_last(out), {x, weight});
  if (tape.dry(y, Count(shape.size()) * out)) return y;
  const ConstMatrix xm = operand(tape, x, rows, in, rows),
                    wm = operand(tape, weight, out, in, rows);
  Real* const yv = tape.value(y);
  const Precision precision = tape.precision();
  if (bias) {
    parallel_for(rows, row_chunk(out),
                 [=, bv = tape.value(*bias)](Index row) { std::copy_n(bv, out, yv + row * out); });
  }
  parallel_gemm(Matrix(yv, rows, out), xm, wm.transpose(), add_if(bias.has_value()), precision);
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientOperand dym(t, dy, rows, out);
    if (bias)
      put_row_sum(t.pool(), t.gradient_sink(*bias), rows, out,
                  [=](Index row, Index i) { return dy[row * out + i]; });
    if (const GradientSink dw = t.gradient_sink(weight))
      parallel_gemm(Matrix(dw.data, out, in), dym.matrix().transpose(), xm, dw.write, precision);
    if (const GradientSink dx = t.gradient_sink(x))
      parallel_gemm(Matrix(dx.data, rows, in), dym.matrix(), wm, dx.write, precision);
  });
  return y;
}

// y[row] = table[ids[row]]; dtable[id] = sum of dy's rows with that id.
Var embedding(Var table, std::span<const std::int32_t> ids, const Shape& rows) {
  Tape& tape = tape_of(table);
  const Shape shape = tape.shape(table);
  require(shape.rank() == 2, Op::embedding, "the table must be [n, width], is {}", shape);
  const Index n = shape[0], width = shape[1], count = rows.size();
  require(static_cast<std::size_t>(count) == ids.size(), Op::embedding, "{} ids do not fill {}",
          ids.size(), rows);
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < n) continue;
    require(false, Op::embedding, "id {} is outside the table of {} rows", id, n);
  }
  auto* const saved_ids = tape.scratch_of<std::int32_t>(count);
  std::ranges::copy(ids, saved_ids);
  Shape result = rows;
  result.append(width);
  const Var y = tape.record(Op::embedding, result, {table});
  if (tape.dry(y)) return y;
  const Real* from = tape.value(table);
  Real* to = tape.value(y);
  parallel_for(count, row_chunk(width), [=](Index row) {
    std::copy_n(from + saved_ids[row] * width, width, to + row * width);
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dt = sink_of_parts(t, table);
    if (!dt) return;
    // One thread adds all rows: several may have the same id, and memory bounds the speed.
    for (Index row = 0; row < count; ++row)
      array(dt.data + saved_ids[row] * width, width) += array(dy + row * width, width);
  });
  return y;
}

}  // namespace headcount
