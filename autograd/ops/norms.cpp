#include <cmath>

#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

namespace {

// h = (x - mean) rstd, y = h w + b; if not centred, the mean is 0. With g = dy w:
//   dx = rstd (g - mean(g) - h mean(g h)), without mean(g) if not centred
//   dw = sum over rows of dy h, db = sum over rows of dy
template <bool centred>
Var norm(Op op, Var x, std::optional<Var> weight, std::optional<Var> bias, Real epsilon) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x);
  const auto text = [&](std::optional<Var> p) { return p ? tape.shape(*p).text() : "none"; };
  const auto fits = [&](std::optional<Var> p) {
    return !p || tape.shape(*p) == Shape{shape.last()};
  };
  require(shape.rank() > 0 && fits(weight) && fits(bias), op,
          "weight and bias must be [{}] for an input {}, are {} and {}", shape.last(), shape,
          text(weight), text(bias));
  const Var y = tape.record(op, shape, {x, weight.value_or(x), bias.value_or(x)});
  if (tape.dry(y)) return y;
  const Index rows = shape.rows(), width = shape.last();
  const Real* const xv = tape.value(x);
  const Real* const wv = weight ? tape.value(*weight) : nullptr;
  const Real* const bv = bias ? tape.value(*bias) : nullptr;
  Real* const yv = tape.value(y);
  Real *const means = centred ? tape.scratch(rows) : nullptr, *const rstds = tape.scratch(rows);
  const auto inverse_width = Real{1} / static_cast<Real>(width);
  parallel_for(rows, row_chunk(width), [=](Index row) {
    const Real* const in = xv + row * width;
    LaneSum sum, squares;
    if constexpr (centred) for_lanes(width, [&]<int n>(Index i) { sum.add(lanes<n>(in + i)); });
    const Real mean = centred ? sum.total() * inverse_width : 0;
    for_lanes(width, [&]<int n>(Index i) { squares.add((lanes<n>(in + i) - mean).square()); });
    const Real rstd = Real{1} / std::sqrt(squares.total() * inverse_width + epsilon);
    for_lanes(width, [&]<int n>(Index i) {
      Lanes<n> result = (lanes<n>(in + i) - mean) * rstd;
      if (wv != nullptr) result *= lanes<n>(wv + i);
      if (bv != nullptr) result += lanes<n>(bv + i);
      lanes<n>(yv + row * width + i) = result;
    });
    if constexpr (centred) means[row] = mean;
    rstds[row] = rstd;
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x);
    const GradientSink dw = weight ? t.gradient_sink(*weight) : GradientSink{};
    const GradientSink db = bias ? t.gradient_sink(*bias) : GradientSink{};
    const RowSums sums(t.pool(), rows, width, 4);  // dw, db, and room for a row of g and of h
    sums.for_rows([=](Index row, Real* dw_sum) {
      Real *const db_sum = dw_sum + width, *const g = db_sum + width, *const h = g + width;
      const Real *const in = xv + row * width, *const d = dy + row * width;
      const Real mean = centred ? means[row] : 0, rstd = rstds[row];
      LaneSum sum_g, sum_gh;
      for_lanes(width, [&]<int n>(Index i) {
        const Lanes<n> d_i = lanes<n>(d + i), h_i = (lanes<n>(in + i) - mean) * rstd;
        const Lanes<n> g_i = wv == nullptr ? d_i : d_i * lanes<n>(wv + i);
        lanes<n>(g + i) = g_i;
        lanes<n>(h + i) = h_i;
        lanes<n>(dw_sum + i) += d_i * h_i;
        if (db) lanes<n>(db_sum + i) += d_i;
        if constexpr (centred) sum_g.add(g_i);
        sum_gh.add(g_i * h_i);
      });
      if (!dx) return;
      const Real mean_g = sum_g.total() * inverse_width, mean_gh = sum_gh.total() * inverse_width;
      put(dx, row * width, (array(g, width) - mean_g - array(h, width) * mean_gh) * rstd);
    });
    sums.put_sum(0, dw);
    sums.put_sum(1, db);
  });
  return y;
}

}  // namespace

Var layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon) {
  return norm<true>(Op::layer_norm, x, weight, bias, epsilon);
}

Var rms_norm(Var x, std::optional<Var> weight, Real epsilon) {
  return norm<false>(Op::rms_norm, x, weight, std::nullopt, epsilon);
}

}  // namespace headcount
