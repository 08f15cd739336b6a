#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

// Inputs [B, T, D] of a call, and those of the tokens of an open block before them.
struct PooledInputs {
  const Real *x, *gates, *bias;
  Real *open_x, *open_gates;  // [B, m - 1, D], or null
  Index length, width, block;
  Index before;  // tokens in the open block

  // Tokens are counted from the beginning of that block.
  const Real* at(const Real* fresh, const Real* open, Index b, Index t) const {
    if (t < before) return open + (b * (block - 1) + t) * width;
    return fresh + (b * length + t - before) * width;
  }
  const Real* x_at(Index b, Index t) const { return at(x, open_x, b, t); }
  const Real* gate_at(Index b, Index t) const { return at(gates, open_gates, b, t); }
};

void check(Tape& tape, Var x, Var gates, Var bias, const OpenBlock& open) {
  const Shape xs = tape.shape(x), bs = tape.shape(bias);
  require(xs.rank() == 3 && bs.rank() == 2 && tape.shape(gates) == xs && bs[1] == xs[2],
          Op::pool_tokens, "wants x and gates [B, T, D] and a bias [m, D], got ", xs, ", ",
          tape.shape(gates), " and ", bs);
  if (open.tokens < 0) return;
  const Index size = xs[0] * (bs[0] - 1) * xs[2];
  require(std::ssize(open.x) == size && std::ssize(open.gates) == size, Op::pool_tokens,
          "an open block must be [B, m - 1, D], for an input ", xs, " and a bias ", bs);
  require(!tape.needs_gradient(x) && !tape.needs_gradient(gates) && !tape.needs_gradient(bias),
          Op::pool_tokens, "an open block has no gradient; use a tape that computes none");
}

// Keeps the tokens of the block that is still open after this call.
void remember(const PooledInputs& in, Index batch, Index blocks) {
  const Index end = in.before + in.length, begin = std::max(in.before, blocks * in.block);
  for (Index b = 0; b < batch; ++b) {
    for (Index t = begin; t < end; ++t) {
      const Index slot = (b * (in.block - 1) + t % in.block) * in.width;
      std::copy_n(in.x_at(b, t), in.width, in.open_x + slot);
      std::copy_n(in.gate_at(b, t), in.width, in.open_gates + slot);
    }
  }
}

}  // namespace

// With p_j the softmax over the m tokens j of a block:
//   y = sum of p_j x_j,  dx_j = p_j dy,  dgate_j = dbias_j = p_j (x_j - y) dy
std::optional<Var> pool_tokens(Var x, Var gates, Var bias, const OpenBlock& open) {
  Tape& tape = tape_of(x);
  check(tape, x, gates, bias, open);
  const Shape shape = tape.shape(x);
  const Index batch = shape[0], width = shape[2], block = tape.shape(bias)[0];
  const PooledInputs in{.x = tape.value(x),
                        .gates = tape.value(gates),
                        .bias = tape.value(bias),
                        .open_x = open.x.data(),
                        .open_gates = open.gates.data(),
                        .length = shape[1],
                        .width = width,
                        .block = block,
                        .before = std::max<Index>(0, open.tokens) % block};
  const Index blocks = (in.before + in.length) / block;
  count_macs(shape.size());  // tokens of an open block are counted now, not with the row
  if (blocks == 0) {
    if (open.tokens >= 0) remember(in, batch, blocks);
    return std::nullopt;
  }
  const Var y = tape.record(Op::pool_tokens, {batch, blocks, width}, {x, gates, bias});
  Real* const yv = tape.value(y);
  Real* const logsumexp = tape.scratch(batch * blocks * width);
  parallel_for(batch * blocks, row_chunk(2 * block * width), [=](Index row) {
    const Index b = row / blocks, first = row % blocks * block;
    for_lanes(width, [&]<int n>(Index c) {
      const auto score = [&](Index j) -> Lanes<n> {
        return lanes<n>(in.gate_at(b, first + j) + c) + lanes<n>(in.bias + j * width + c);
      };
      Lanes<n> greatest = score(0), total = Lanes<n>::Zero(), sum = Lanes<n>::Zero();
      for (Index j = 1; j < block; ++j) greatest = greatest.max(score(j));
      for (Index j = 0; j < block; ++j) {
        const Lanes<n> weight = (score(j) - greatest).exp();
        total += weight;
        sum += weight * lanes<n>(in.x_at(b, first + j) + c);
      }
      lanes<n>(yv + row * width + c) = sum / total;
      lanes<n>(logsumexp + row * width + c) = greatest + total.log();
    });
  });
  if (open.tokens >= 0) remember(in, batch, blocks);
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x), dgates = t.gradient_sink(gates),
                       dbias = t.gradient_sink(bias);
    const RowSums sums(t.pool(), batch * blocks, width, block);
    sums.for_rows([=](Index row, Real* bias_sums) {
      const Index b = row / blocks, first = row % blocks * block;
      for_lanes(width, [&]<int n>(Index c) {
        const Index to = row * width + c;
        for (Index j = 0; j < block; ++j) {
          const Index at = (b * in.length + first + j) * width + c;
          const Lanes<n> score = lanes<n>(in.gates + at) + lanes<n>(in.bias + j * width + c);
          const Lanes<n> of_x = (score - lanes<n>(logsumexp + to)).exp() * lanes<n>(dy + to);
          const Lanes<n> of_score = of_x * (lanes<n>(in.x + at) - lanes<n>(yv + to));
          if (dx) put_lanes(dx, at, of_x);
          if (dgates) put_lanes(dgates, at, of_score);
          lanes<n>(bias_sums + j * width + c) += of_score;
        }
      });
    });
    for (const GradientSink& sink : {dx, dgates}) {
      if (!sink || sink.write == Write::add) continue;
      for (Index b = 0; b < batch; ++b)  // tokens of an open block
        std::fill_n(sink.data + (b * in.length + blocks * block) * width,
                    (in.length - blocks * block) * width, Real{0});
    }
    if (!dbias) return;
    for (Index j = 0; j < block; ++j) sums.put_sum(j, {dbias.data + j * width, dbias.write});
  });
  return y;
}

}  // namespace headcount
