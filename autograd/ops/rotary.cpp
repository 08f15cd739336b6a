#include <cmath>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

RotaryTable::RotaryTable(Index dim, Index positions, double theta)
    : dim_(dim), positions_(positions) {
  require(dim > 0 && dim % 2 == 0, Op::rotary, "the rotary dimension must be even, is ", dim);
  for (Index position = 0; position < positions; ++position) {
    for (Index j = 0; j < dim / 2; ++j) {
      const double angle =
          static_cast<double>(position) *
          std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(dim));
      cosines_.push_back(static_cast<Real>(std::cos(angle)));
      sines_.push_back(static_cast<Real>(std::sin(angle)));
    }
  }
}

// For each pair (a, b) and its angle: y = (a cos - b sin, a sin + b cos); the gradient rotates
// back: dx = (da cos + db sin, db cos - da sin). Turning back exchanges the two.
Var rotary(Var x, const RotaryTable& table, RotaryLayout layout, Index first_position, bool back) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x);
  require(shape.rank() == 4 && shape[3] >= table.dim(), Op::rotary,
          "wants [B, T, H, D] with D >= ", table.dim(), ", got ", shape);
  const Index length = shape[1], heads = shape[2], width = shape[3], rotated = table.dim();
  require(first_position >= 0 && first_position + length <= table.positions(), Op::rotary,
          "positions ", first_position, " to ", first_position + length - 1,
          " are not all in the table of ", table.positions());
  const Index stride = layout == RotaryLayout::half ? 1 : 2;             // from pair to pair
  const Index partner = layout == RotaryLayout::half ? rotated / 2 : 1;  // within a pair
  const RotaryTable* const angles = &table;
  const auto rotate_rows = [=](const Real* from, Real sign, const GradientSink& to) {
    parallel_chunks(shape.rows(), row_chunk(width), [=](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        const Index position = first_position + row / heads % length;
        const Real *c = angles->cosines(position), *s = angles->sines(position);
        const Index start = row * width, pairs = start + width - rotated;
        for (Index i = start; i < pairs; ++i) to.put(i, from[i]);
        for (Index j = 0; j < rotated / 2; ++j) {
          const Index i = pairs + j * stride;
          const Real a = from[i], b = from[i + partner], sine = sign * s[j];
          to.put(i, a * c[j] - b * sine);
          to.put(i + partner, a * sine + b * c[j]);
        }
      }
    });
  };
  const Var y = tape.record(Op::rotary, shape, {x});
  const Real sign = back ? Real{-1} : Real{1};  // in forward; the gradient's is the other one
  rotate_rows(tape.value(x), sign, {tape.value(y), false});
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (const GradientSink dx = t.gradient_sink(x)) rotate_rows(dy, -sign, dx);
  });
  return y;
}

}  // namespace headcount
