#include <cmath>
#include <map>
#include <tuple>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

RotaryTable::RotaryTable(Index dim, Index positions, double theta)
    : dim_(dim), positions_(positions), theta_(theta) {
  require(dim > 0 && dim % 2 == 0, Op::rotary, "the rotary dimension must be even, is {}", dim);
  // The layers of a model are made by one thread.
  thread_local std::map<std::tuple<Index, Index, double>, std::weak_ptr<Angles>> all;
  std::erase_if(all, [](const auto& table) { return table.second.expired(); });
  std::weak_ptr<Angles>& shared = all[{dim, positions, theta}];
  angles_ = shared.lock();
  if (angles_ == nullptr) shared = angles_ = std::make_shared<Angles>();
}

const RotaryTable::Angles& RotaryTable::angles() const {
  std::call_once(angles_->made, [&] {
    std::vector<double> frequencies;
    for (Index j = 0; j < dim_ / 2; ++j)
      frequencies.push_back(
          std::pow(theta_, -2.0 * static_cast<double>(j) / static_cast<double>(dim_)));
    angles_->cosines.reserve(static_cast<std::size_t>(positions_ * (dim_ / 2)));
    angles_->sines.reserve(angles_->cosines.capacity());
    for (Index position = 0; position < positions_; ++position) {
      for (const double frequency : frequencies) {
        const double angle = static_cast<double>(position) * frequency;
        angles_->cosines.push_back(static_cast<Real>(std::cos(angle)));
        angles_->sines.push_back(static_cast<Real>(std::sin(angle)));
      }
    }
  });
  return *angles_;
}

// For each pair (a, b) and its angle: y = (a cos - b sin, a sin + b cos). The gradient is rotated
// by the opposite angle: dx = (da cos + db sin, db cos - da sin).
Var rotary(Var x, const RotaryTable& table, RotaryLayout layout, Index first_position,
           Rotation rotation, Index stride) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x);
  require(shape.rank() == 4 && shape[3] >= table.dim(), Op::rotary,
          "wants [B, T, H, D] with D >= {}, got {}", table.dim(), shape);
  const Index length = shape[1], heads = shape[2], width = shape[3], rotated = table.dim();
  require(first_position >= 0 && first_position + (length - 1) * stride < table.positions(),
          Op::rotary, "positions {} to {} are not all in the table of {}", first_position,
          first_position + (length - 1) * stride, table.positions());
  const Var y = tape.record(Op::rotary, shape, {x});
  if (tape.dry(y)) return y;
  const RotaryTable::Angles* const angles = &table.angles();
  // Pairs (i, i + partner), (i + kStride, i + kStride + partner), ...
  const auto rotate_rows = [=]<int kStride>(const Real* from, Real sign, const GradientSink& to) {
    const Index partner = kStride == 1 ? rotated / 2 : 1;
    parallel_for(shape[0] * length, row_chunk(heads * width), [=](Index token) {
      const Index position = first_position + token % length * stride;
      const Index row_of_table = position * (rotated / 2);
      const Real *c = angles->cosines.data() + row_of_table,
                 *s = angles->sines.data() + row_of_table;
      for (Index row = token * heads; row < (token + 1) * heads; ++row) {
        const Index start = row * width, pairs = start + width - rotated;
        for (Index i = start; i < pairs; ++i) to.put(i, from[i]);
        for_lanes<8>(rotated / 2, [&]<int n>(Index j) {
          const Index i = pairs + j * kStride;
          const Lanes<n> a = lanes<n, kStride>(from + i);
          const Lanes<n> b = lanes<n, kStride>(from + i + partner);
          const Lanes<n> cosine = lanes<n>(c + j), sine = sign * lanes<n>(s + j);
          put_lanes<kStride>(to, i, b * -sine + a * cosine);
          put_lanes<kStride>(to, i + partner, b * cosine + a * sine);
        });
      }
    });
  };
  const auto rotate = [=](const Real* from, Real sign, const GradientSink& to) {
    if (layout == RotaryLayout::half) {
      rotate_rows.template operator()<1>(from, sign, to);
    } else {
      rotate_rows.template operator()<2>(from, sign, to);
    }
  };
  const Real sign = rotation == Rotation::inverse ? Real{-1} : Real{1};
  rotate(tape.value(x), sign, {tape.value(y)});
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (const GradientSink dx = t.gradient_sink(x)) rotate(dy, -sign, dx);
  });
  return y;
}

}  // namespace headcount
