#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

// Inputs x [B, T, C] of a convolution, and `past`, the inputs before them.
struct Inputs {
  const Real *x, *past;
  Index length, channels, before;

  // Row of token t >= -before of sequence b; null stands for zeros.
  const Real* at(Index b, Index t) const {
    if (t >= 0) return x + (b * length + t) * channels;
    return past == nullptr ? nullptr : past + (b * before + before + t) * channels;
  }
};

// Copies the last inputs of each sequence to `past`, in order: rows move towards the front and
// never overwrite later ones.
void remember(const Inputs& in, Index batch, Real* past) {
  for (Index b = 0; b < batch; ++b) {
    for (Index i = 0; i < in.before; ++i) {
      const Real* const from = in.at(b, in.length - in.before + i);
      std::copy_n(from, in.channels, past + (b * in.before + i) * in.channels);
    }
  }
}

void check(Tape& tape, Var x, Var weight, Index first, std::span<Real> past) {
  const Shape shape = tape.shape(x), w = tape.shape(weight);
  require(shape.rank() == 3 && w.rank() == 3 && w[1] == 1 && w[2] > 0, Op::causal_convolution,
          "wants [B, T, C] and a weight [channels, 1, taps], got ", shape, " and ", w);
  require(first >= 0 && first + shape[2] <= w[0], Op::causal_convolution, "channels ", first,
          " to ", first + shape[2] - 1, " are not in the weight ", w);
  if (past.empty()) return;
  require(std::ssize(past) == shape[0] * (w[2] - 1) * shape[2], Op::causal_convolution,
          "earlier inputs must be [B, taps - 1, C], for an input ", shape, " and a weight ", w,
          ", are ", past.size(), " numbers");
  require(!tape.needs_gradient(x) && !tape.needs_gradient(weight), Op::causal_convolution,
          "earlier inputs have no gradient; use a tape that computes none");
}

}  // namespace

// With w_j tap j of each channel:
//   y_t = sum_j w_j x_{t - (K - 1) + j}
//   dx_t = sum_j w_j dy_{t + (K - 1) - j},  dw_j = sum over t of dy_t x_{t - (K - 1) + j}
// With a skip, y_t has x_t and dx_t has dy_t besides.
Var causal_convolution(Var x, Var weight, Index first, std::span<Real> past, Skip skip) {
  Tape& tape = tape_of(x);
  check(tape, x, weight, first, past);
  const Shape shape = tape.shape(x);
  const Index batch = shape[0], length = shape[1], channels = shape[2];
  const Index kernel = tape.shape(weight)[2], before = kernel - 1;
  const Var y = tape.record(Op::causal_convolution, shape, {x, weight});
  if (tape.dry(y, Count(shape.size()) * kernel)) return y;
  Real* const taps = tape.scratch(kernel * channels);  // [K, C]
  const Real* const wv = tape.value(weight) + first * kernel;
  for (Index c = 0; c < channels; ++c) {
    for (Index j = 0; j < kernel; ++j) taps[j * channels + c] = wv[c * kernel + j];
  }
  const Inputs in{tape.value(x), past.empty() ? nullptr : past.data(), length, channels, before};
  Real* const yv = tape.value(y);
  count_macs(shape.size() * kernel);
  parallel_for(batch * length, row_chunk(kernel * channels), [=](Index row) {
    ArrayMap out = array(yv + row * channels, channels);
    if (skip == Skip::input) {
      out = array(in.x + row * channels, channels);
    } else {
      out.setZero();
    }
    for (Index j = 0; j < kernel; ++j) {
      const Real* const from = in.at(row / length, row % length - before + j);
      if (from != nullptr) out += array(taps + j * channels, channels) * array(from, channels);
    }
  });
  if (!past.empty()) remember(in, batch, past.data());
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x), dw = t.gradient_sink(weight);
    if (dx) {
      parallel_for(batch * length, row_chunk(kernel * channels), [=](Index row) {
        GradientSink sink = dx;
        const Index after = std::min(before, length - 1 - row % length);
        if (skip == Skip::input) {
          put(sink, row * channels, array(dy + row * channels, channels));
          sink.write = Write::add;
        }
        for (Index i = 0; i <= after; ++i) {
          put(sink, row * channels,
              array(taps + (before - i) * channels, channels) *
                  array(dy + (row + i) * channels, channels));
          sink.write = Write::add;
        }
      });
    }
    if (!dw) return;
    const RowSums sums(t.pool(), batch * length, channels, kernel);
    sums.for_rows([=](Index row, Real* tap_sums) {
      for (Index j = std::max<Index>(0, before - row % length); j < kernel; ++j) {
        array(tap_sums + j * channels, channels) +=
            array(dy + row * channels, channels) *
            array(in.x + (row - before + j) * channels, channels);
      }
    });
    if (dw.write == Write::assign) std::fill_n(dw.data, t.shape(weight).size(), Real{0});
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
