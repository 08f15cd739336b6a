#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products/mac_counter.h"
#include "autograd/products/products.h"

namespace headcount {

// With w_j tap j of each channel:
//   y_t = sum_j w_j x_{t - (K - 1) + j}
//   dx_t = sum_j w_j dy_{t + (K - 1) - j},  dw_j = sum over t of dy_t x_{t - (K - 1) + j}
// With a skip, the last tap of y and dx is 1 more.
Var causal_convolution(Var x, Var weight, Index first, Skip skip, std::optional<Index> tokens) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x), w = tape.shape(weight);
  require(shape.rank() == 3 && w.rank() == 3 && w[1] == 1 && w[2] > 0, Op::causal_convolution,
          "wants [B, T, C] and a weight [channels, 1, taps], got {} and {}", shape, w);
  require(first >= 0 && first + shape[2] <= w[0], Op::causal_convolution,
          "channels {} to {} are not in the weight {}", first, first + shape[2] - 1, w);
  const Index length = shape[1], channels = shape[2], kernel = w[2];
  const Index count = tokens.value_or(length), begin = length - count, rows = shape[0] * count;
  require(begin >= 0, Op::causal_convolution, "has no {} tokens in {}", count, shape);
  const Var y = tape.record(Op::causal_convolution, {shape[0], count, channels}, {x, weight});
  if (tape.dry(y, Count(rows) * channels * kernel)) return y;
  Real* const taps = tape.scratch(kernel * channels);  // [K, C]
  const Real* const wv = tape.value(weight) + first * kernel;
  for (Index c = 0; c < channels; ++c) {
    for (Index j = 0; j < kernel; ++j) taps[j * channels + c] = wv[c * kernel + j];
    if (skip == Skip::input) taps[(kernel - 1) * channels + c] += 1;
  }
  const auto tap = [=](Index j) { return ConstArrayMap(taps + j * channels, channels); };
  const Real* const xv = tape.value(x);
  Real* const yv = tape.value(y);
  count_macs(std::int64_t{rows} * channels * kernel);
  // Calls body(j, x) with each tap j whose input x is there for a row of y.
  const auto for_inputs = [=](Index row, const auto& body) {
    const Index t = begin + row % count;
    const Real* const own = xv + (row / count * length + t) * channels;
    for (Index j = std::max<Index>(0, kernel - 1 - t); j < kernel; ++j)
      body(j, array(own - (kernel - 1 - j) * channels, channels));
  };
  parallel_for(rows, row_chunk(kernel * channels), [=](Index row) {
    ArrayMap out = array(yv + row * channels, channels);
    out.setZero();
    for_inputs(row, [&](Index j, const ConstArrayMap& in) { out += tap(j) * in; });
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x), dw = sink_of_parts(t, weight);
    if (dx) {
      parallel_for(shape[0] * length, row_chunk(kernel * channels), [=](Index row) {
        const Index own = row % length - begin;  // token of y
        const Index end = std::min(count, own + kernel);
        ArrayMap out = array(dx.data + row * channels, channels);
        if (dx.write == Write::assign) out.setZero();
        for (Index i = std::max<Index>(0, own); i < end; ++i)
          out += tap(kernel - 1 - (i - own)) *
                 array(dy + (row / length * count + i) * channels, channels);
      });
    }
    if (!dw) return;
    const RowSums sums(t.pool(), rows, channels, kernel);
    sums.for_rows([=](Index row, Real* tap_sums) {
      for_inputs(row, [&](Index j, const ConstArrayMap& in) {
        array(tap_sums + j * channels, channels) += array(dy + row * channels, channels) * in;
      });
    });
    Real* const tap_sum = t.pool().take(channels);
    for (Index j = 0; j < kernel; ++j) {
      sums.put_sum(j, {tap_sum});
      for (Index c = 0; c < channels; ++c) dw.data[(first + c) * kernel + j] += tap_sum[c];
    }
    t.pool().give_back(tap_sum);
  });
  return y;
}

}  // namespace headcount
