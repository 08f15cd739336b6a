#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

// y = a b for each leading index; da = dy b^T, db = a^T dy.
Var matrix_product(Var a, Var b) {
  Tape& tape = tape_of(a);
  const Shape left = tape.shape(a), right = tape.shape(b);
  bool agree = left.rank() == right.rank() && left.rank() >= 2 && left[-1] == right[-2];
  for (int i = 0; agree && i + 2 < left.rank(); ++i) agree = left[i] == right[i];
  require(agree, Op::matrix_product, "shapes ", left, " and ", right, " cannot be multiplied");
  const Index m = left[-2], k = left[-1], n = right[-1];
  const Index batch = m * k == 0 ? 0 : left.size() / (m * k);
  const Index chunk = task_chunk(m * k * n);
  const Var y = tape.record(Op::matrix_product, left.with_last(n), {a, b});
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

namespace {

// Outputs per chunk: enough chunks for threads to have equal shares, enough work for each of them.
Index few_rows_chunk(Index rows, Index out, Index in) {
  constexpr Index kChunkMacs = 1 << 14, kChunks = 32;
  const Index chunk = std::max(out / kChunks, kChunkMacs / std::max<Index>(1, rows * in));
  return (chunk + 7) / 8 * 8 + (chunk == 0 ? 8 : 0);
}

}  // namespace

// y = x W^T + b over all rows at once; dx = dy W, dW = dy^T x, db = sum of dy's rows.
Var linear(Var x, Var weight, std::optional<Var> bias) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x), w_shape = tape.shape(weight);
  require(w_shape.rank() == 2 && shape.rank() > 0 && shape.last() == w_shape[1], Op::linear,
          "the weight ", w_shape, " wants inputs of its last extent, got ", shape);
  const Index rows = shape.rows(), in = w_shape[1], out = w_shape[0];
  if (bias) {
    require(tape.shape(*bias) == Shape{out}, Op::linear, "the bias must be [", out,
            "], one number per output, is ", tape.shape(*bias));
  }
  const Var y = bias ? tape.record(Op::linear, shape.with_last(out), {x, weight, *bias})
                     : tape.record(Op::linear, shape.with_last(out), {x, weight});
  const bool rounds = reads_rounded(tape, rows, out, in);
  const ConstMatrix xm = operand(tape, x, rows, in, rounds && rows >= kFewRows);
  const ConstMatrix wm = operand(tape, weight, out, in, rounds);
  const Real* bv = bias ? tape.value(*bias) : nullptr;
  Real* yv = tape.value(y);
  // Rows [first, last) of x and outputs [begin, end).
  const auto block = [=](Index first, Index last, Index begin, Index end) {
    gemm(Matrix(yv + first * out + begin, last - first, end - begin, out),
         xm.row_range(first, last), wm.row_range(begin, end).transpose());
    if (bv == nullptr) return;
    for (Index row = first; row < last; ++row) {
      array(yv + row * out + begin, end - begin) += array(bv + begin, end - begin);
    }
  };
  if (rows < kFewRows) {
    // Few rows, as in decoding: reading the weight takes most time, so the threads share its rows.
    parallel_chunks(out, few_rows_chunk(rows, out, in),
                    [&](Index begin, Index end) { block(0, rows, begin, end); });
  } else {
    // Products of few rows round differently. In decoding, where a row must not depend on the
    // number of rows beside it, a last chunk of less than a quarter is joined to the one before it.
    const Index chunk = gemm_chunk(rows, out, in);
    const Index least = tape.needs_gradient(y) ? 1 : (chunk + 3) / 4;
    const Index chunks = std::max<Index>(1, (rows + chunk - least) / chunk);
    parallel_for(chunks, 1, [&](Index i) {
      block(i * chunk, i + 1 == chunks ? rows : (i + 1) * chunk, 0, out);
    });
  }
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (bias)
      put_row_sum(t.gradient_sink(*bias), rows, out, [=](Index at, Index) { return dy[at]; });
    const PassingOperand dym(t.pool(), dy, rows, out, rounds);
    if (const GradientSink dw = t.gradient_sink(weight)) {
      const Index scratch_size = gemm_scratch(out, in, rows);
      Real* const scratch = scratch_size > 0 ? t.pool().take(scratch_size) : nullptr;
      parallel_gemm(Matrix(dw.data, out, in), dym.matrix().transpose(),
                    operand(t, x, rows, in, rounds), dw.write, scratch);
      if (scratch != nullptr) t.pool().give_back(scratch);
    }
    if (const GradientSink dx = t.gradient_sink(x)) {
      parallel_gemm(Matrix(dx.data, rows, in), dym.matrix(), wm, dx.write);
    }
  });
  return y;
}

// With W_h the rows of head h's block, as they are stored or transposed:
//   y_h = x_h W_h, dx_h = dy_h W_h^T, dW_h = x_h^T dy_h
Var head_linear(Var x, Var weight, Index first, Index count, Stored stored) {
  const bool transposed = stored == Stored::transposed;
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x), w_shape = tape.shape(weight);
  require(shape.rank() == 4 && w_shape.rank() == 2 && shape[2] > 0 && w_shape[0] % shape[2] == 0,
          Op::head_linear, "wants [B, T, H, in] and a weight [H block, r], got ", shape, " and ",
          w_shape);
  const Index rows = shape[0] * shape[1], heads = shape[2], r = w_shape[1];
  const Index block = w_shape[0] / heads;
  require(first >= 0 && count > 0 && first + count <= block, Op::head_linear, "rows ", first,
          " to ", first + count - 1, " are not in a head's block of ", block);
  const Index in = transposed ? r : count, out = transposed ? count : r;
  require(shape[3] == in, Op::head_linear, "heads must be ", in, " wide, got ", shape);
  const Var y = tape.record(Op::head_linear, shape.with_last(out), {x, weight});
  const bool rounds = reads_rounded(tape, rows, out, in);
  const ConstMatrix xm = operand(tape, x, rows, heads * in, rounds && rows >= kFewRows);
  const ConstMatrix wm = operand(tape, weight, heads * block, r, rounds);
  Real* const yv = tape.value(y);
  const Index chunk = task_chunk(rows * in * out);
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
    const PassingOperand dym(t.pool(), dy, rows, heads * out, rounds);
    const auto dy_of = [&](Index h) { return of_head(dym.matrix(), h, out); };
    if (const GradientSink dx = t.gradient_sink(x)) {
      parallel_for(heads, chunk, [=](Index h) {
        gemm(Matrix(dx.data + h * in, rows, in, heads * in), dy_of(h), weight_of(h).transpose(),
             dx.write);
      });
    }
    if (const GradientSink dw = t.gradient_sink(weight)) {
      if (dw.write == Write::assign) std::fill_n(dw.data, heads * block * r, Real{0});
      const ConstMatrix all_x = operand(t, x, rows, heads * in, rounds);
      parallel_for(heads, chunk, [=](Index h) {
        const ConstMatrix x_h = of_head(all_x, h, in);
        const Matrix into(dw.data + (h * block + first) * r, count, r);
        const ConstMatrix left = transposed ? dy_of(h) : x_h;
        gemm(into, left.transpose(), transposed ? x_h : dy_of(h), Write::add);
      });
    }
  });
  return y;
}

// y[row] = table[ids[row]]; dtable[id] = sum of dy's rows with that id.
Var embedding(Var table, std::span<const std::int32_t> ids, const Shape& rows) {
  Tape& tape = tape_of(table);
  const Shape shape = tape.shape(table);
  require(shape.rank() == 2, Op::embedding, "the table must be [n, width], is ", shape);
  const Index n = shape[0], width = shape[1], count = rows.size();
  require(static_cast<std::size_t>(count) == ids.size(), Op::embedding, ids.size(),
          " ids do not fill ", rows);
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < n) continue;
    require(false, Op::embedding, "id ", id, " is outside the table of ", n, " rows");
  }
  auto* const saved_ids = tape.scratch_of<std::int32_t>(count);
  std::ranges::copy(ids, saved_ids);
  Shape result = rows;
  result.append(width);
  const Var y = tape.record(Op::embedding, result, {table});
  const Real* from = tape.value(table);
  Real* to = tape.value(y);
  parallel_for(count, row_chunk(width), [=](Index row) {
    std::copy_n(from + saved_ids[row] * width, width, to + row * width);
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    put_row_sums(
        t.gradient_sink(table), n, count, width, [=](Index row) { return saved_ids[row]; },
        [=](Index at, Index) { return dy[at]; });
  });
  return y;
}

}  // namespace headcount
