#include <algorithm>

#include "autograd/no_target.h"
#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

// y = exp(x) / sum(exp(x)) over each row; dx = y (dy - sum(dy y)).
Var softmax(Var x) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x);
  require(shape.rank() > 0 && shape.last() > 0, Op::softmax, "nothing to normalise in {}", shape);
  const Index rows = shape.rows(), width = shape.last();
  const Var y = tape.record(Op::softmax, shape, {x});
  if (tape.dry(y)) return y;
  const Real* xv = tape.value(x);
  Real* yv = tape.value(y);
  parallel_for(rows, row_chunk(width), [=](Index row) {
    const auto in = array(xv + row * width, width);
    auto out = array(yv + row * width, width);
    out = (in - in.maxCoeff()).exp();
    out /= out.sum();
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x);
    if (!dx) return;
    parallel_for(rows, row_chunk(width), [=](Index row) {
      const auto out = array(static_cast<const Real*>(yv) + row * width, width);
      const auto d = array(dy + row * width, width);
      put(dx, row * width, out * (d - (d * out).sum()));
    });
  });
  return y;
}

// y = mean of (logsumexp(row) - row[target]); drow = dy (softmax(row) - onehot(target)) / rows.
Var cross_entropy(Var logits, std::span<const std::int32_t> targets) {
  Tape& tape = tape_of(logits);
  const Shape shape = tape.shape(logits);
  const Index rows = shape.rows(), width = shape.last();
  require(shape.rank() > 0 && static_cast<std::size_t>(rows) == targets.size() && rows > 0,
          Op::cross_entropy, "logits {} do not match {} targets", shape, targets.size());
  for (const std::int32_t target : targets) {
    if (target == kNoTarget || (target >= 0 && target < width)) continue;
    require(false, Op::cross_entropy, "target {} is not one of {} classes", target, width);
  }
  auto* const saved_targets = tape.scratch_of<std::int32_t>(rows);
  std::ranges::copy(targets, saved_targets);
  auto* const softmaxes = tape.scratch_of<RowSoftmax>(rows);
  const auto counted = static_cast<double>(rows - std::ranges::count(targets, kNoTarget));
  const Var y = tape.record(Op::cross_entropy, {}, {logits});
  if (tape.dry(y)) return y;
  const Real* lv = tape.value(logits);
  parallel_for(rows, row_chunk(width), [=](Index row) {
    const auto in = array(lv + row * width, width);
    const Real greatest = in.maxCoeff();
    softmaxes[row] = {greatest, 1 / (in - greatest).exp().sum()};
  });
  double total = 0;
  for (Index row = 0; row < rows; ++row) {
    if (saved_targets[row] == kNoTarget) continue;
    total -= static_cast<double>(softmaxes[row].log_weight(lv[row * width + saved_targets[row]]));
  }
  *tape.value(y) = counted > 0 ? static_cast<Real>(total / counted) : 0;
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dl = t.gradient_sink(logits);
    if (!dl) return;
    const Real weight = counted > 0 ? *dy / static_cast<Real>(counted) : 0;
    parallel_for(rows, row_chunk(width), [=](Index row) {
      const bool none = saved_targets[row] == kNoTarget;
      const RowSoftmax& softmax = softmaxes[row];
      put(dl, row * width,
          (array(lv + row * width, width) - softmax.greatest).exp() *
              (none ? 0 : softmax.inverse * weight));
      if (!none) dl.data[row * width + saved_targets[row]] -= weight;
    });
  });
  return y;
}

}  // namespace headcount
