#include <cmath>

#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

namespace {

// Checks the shapes and records the node.
Var record_norm(Op op, Var x, std::optional<Var> weight, std::optional<Var> bias) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x);
  const auto text = [&](std::optional<Var> p) { return p ? tape.shape(*p).text() : "none"; };
  const auto fits = [&](std::optional<Var> p) {
    return !p || tape.shape(*p) == Shape{shape.last()};
  };
  require(shape.rank() > 0 && fits(weight) && fits(bias), op, "weight and bias must be [",
          shape.last(), "] for an input ", shape, ", are ", text(weight), " and ", text(bias));
  return tape.record(op, shape, {x, weight.value_or(x), bias.value_or(x)});
}

}  // namespace

// h = (x - mean) rstd, y = h w + b. With g = dy w:
//   dx = rstd (g - mean(g) - h mean(g h))
//   dw = sum over rows of dy h, db = sum over rows of dy
Var layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon) {
  const Var y = record_norm(Op::layer_norm, x, weight, bias);
  Tape& tape = *x.tape;
  if (tape.dry(y)) return y;
  const Index rows = tape.shape(x).rows(), width = tape.shape(x).last();
  const Real *const xv = tape.value(x), *const wv = tape.value(weight);
  const Real* const bv = bias ? tape.value(*bias) : nullptr;
  Real* const yv = tape.value(y);
  Real *const means = tape.scratch(rows), *const rstds = tape.scratch(rows);
  const auto inverse_width = Real{1} / static_cast<Real>(width);
  parallel_for(rows, row_chunk(width), [=](Index row) {
    const Real* const in = xv + row * width;
    LaneSum sum, squares;
    for_lanes(width, [&]<int n>(Index i) { sum.add(lanes<n>(in + i)); });
    const Real mean = sum.total() * inverse_width;
    for_lanes(width, [&]<int n>(Index i) { squares.add((lanes<n>(in + i) - mean).square()); });
    const Real rstd = Real{1} / std::sqrt(squares.total() * inverse_width + epsilon);
    for_lanes(width, [&]<int n>(Index i) {
      Lanes<n> result = (lanes<n>(in + i) - mean) * rstd * lanes<n>(wv + i);
      if (bv != nullptr) result += lanes<n>(bv + i);
      lanes<n>(yv + row * width + i) = result;
    });
    means[row] = mean;
    rstds[row] = rstd;
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x), dw = t.gradient_sink(weight);
    const GradientSink db = bias ? t.gradient_sink(*bias) : GradientSink{};
    const RowSums sums(t.pool(), rows, width, 3);  // dw, db, and room for a row of h
    sums.for_rows([=](Index row, Real* dw_sum) {
      Real *const db_sum = dw_sum + width, *const h = db_sum + width;
      const Real *const in = xv + row * width, *const d = dy + row * width;
      const Real mean = means[row], rstd = rstds[row];
      LaneSum sum_g, sum_gh;
      for_lanes(width, [&]<int n>(Index i) {
        const Lanes<n> d_i = lanes<n>(d + i), h_i = (lanes<n>(in + i) - mean) * rstd;
        const Lanes<n> g_i = d_i * lanes<n>(wv + i);
        lanes<n>(h + i) = h_i;
        lanes<n>(dw_sum + i) += d_i * h_i;
        lanes<n>(db_sum + i) += d_i;
        sum_g.add(g_i);
        sum_gh.add(g_i * h_i);
      });
      if (!dx) return;
      const auto g = array(d, width) * array(wv, width);
      const Real mean_g = sum_g.total() * inverse_width, mean_gh = sum_gh.total() * inverse_width;
      put(dx, row * width, (g - mean_g - array(h, width) * mean_gh) * rstd);
    });
    sums.put_sum(0, dw);
    sums.put_sum(1, db);
  });
  return y;
}

// h = x rstd, y = h w. With g = dy w:
//   dx = rstd (g - h mean(g h))
//   dw = sum over rows of dy h
Var rms_norm(Var x, std::optional<Var> weight, Real epsilon) {
  const Var y = record_norm(Op::rms_norm, x, weight, std::nullopt);
  Tape& tape = *x.tape;
  if (tape.dry(y)) return y;
  const Index rows = tape.shape(x).rows(), width = tape.shape(x).last();
  const Real* const xv = tape.value(x);
  const Real* const wv = weight ? tape.value(*weight) : nullptr;
  Real* const yv = tape.value(y);
  Real* const rstds = tape.scratch(rows);
  const auto inverse_width = Real{1} / static_cast<Real>(width);
  parallel_for(rows, row_chunk(width), [=](Index row) {
    const Real* const in = xv + row * width;
    LaneSum squares;
    for_lanes(width, [&]<int n>(Index i) { squares.add(lanes<n>(in + i).square()); });
    const Real rstd = Real{1} / std::sqrt(squares.total() * inverse_width + epsilon);
    for_lanes(width, [&]<int n>(Index i) {
      Lanes<n> result = lanes<n>(in + i) * rstd;
      if (wv != nullptr) result *= lanes<n>(wv + i);
      lanes<n>(yv + row * width + i) = result;
    });
    rstds[row] = rstd;
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x);
    const GradientSink dw = weight ? t.gradient_sink(*weight) : GradientSink{};
    const RowSums sums(t.pool(), rows, width, 2);  // dw, and room for a row of h
    sums.for_rows([=](Index row, Real* dw_sum) {
      Real* const h = dw_sum + width;
      const Real *const in = xv + row * width, *const d = dy + row * width;
      const Real rstd = rstds[row];
      LaneSum sum_gh;
      for_lanes(width, [&]<int n>(Index i) {
        const Lanes<n> d_i = lanes<n>(d + i), h_i = lanes<n>(in + i) * rstd;
        lanes<n>(h + i) = h_i;
        lanes<n>(dw_sum + i) += d_i * h_i;
        const Lanes<n> g_i = wv == nullptr ? d_i : d_i * lanes<n>(wv + i);
        sum_gh.add(g_i * h_i);
      });
      if (!dx) return;
      const Real mean_gh = sum_gh.total() * inverse_width;
      const auto put_dx = [&](const auto& g) {
        put(dx, row * width, (g - array(h, width) * mean_gh) * rstd);
      };
      if (wv == nullptr) {
        put_dx(array(d, width));
      } else {
        put_dx(array(d, width) * array(wv, width));
      }
    });
    sums.put_sum(0, dw);
  });
  return y;
}

}  // namespace headcount
