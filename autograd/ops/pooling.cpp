#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products/mac_counter.h"
#include "autograd/products/products.h"

namespace headcount {

// With p_j the softmax over the tokens j of a block:
//   y = sum of p_j x_j,  dx_j = p_j dy,  dgate_j = dbias_j = p_j (x_j - y) dy
std::optional<Var> pool_tokens(Var x, Var gates, Var bias) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x), bs = tape.shape(bias);
  require(shape.rank() == 3 && bs.rank() == 2 && tape.shape(gates) == shape && bs[1] == shape[2],
          Op::pool_tokens, "wants x and gates [B, T, D] and a bias [m, D], got {}, {} and {}",
          shape, tape.shape(gates), bs);
  const Index batch = shape[0], length = shape[1], width = shape[2], block = bs[0];
  const Index blocks = length / block;
  const auto record = [&] {
    return tape.record(Op::pool_tokens, {batch, blocks, width}, {x, gates, bias});
  };
  // Tokens of an open block are counted now, not with the row.
  if (tape.is_dry()) {
    const Var y = record();
    tape.dry(y, shape.size());
    return blocks > 0 ? std::optional(y) : std::nullopt;
  }
  count_macs(shape.size());
  if (blocks == 0) return std::nullopt;
  const Var y = record();
  const Real *const xv = tape.value(x), *const gate = tape.value(gates),
                    *const b = tape.value(bias);
  Real* const yv = tape.value(y);
  Real* const greatest_scores = tape.scratch(batch * blocks * width);  // as in RowSoftmax
  Real* const inverse = tape.scratch(batch * blocks * width);
  const auto first_token = [=](Index row) {
    return (row / blocks * length + row % blocks * block) * width;
  };
  parallel_for(batch * blocks, row_chunk(2 * block * width), [=](Index row) {
    const Index first = first_token(row);
    for_lanes(width, [&]<int n>(Index c) {
      const auto score = [&](Index j) -> Lanes<n> {
        return lanes<n>(gate + first + j * width + c) + lanes<n>(b + j * width + c);
      };
      Lanes<n> greatest = score(0), total = Lanes<n>::Zero(), sum = Lanes<n>::Zero();
      for (Index j = 1; j < block; ++j) greatest = greatest.max(score(j));
      for (Index j = 0; j < block; ++j) {
        const Lanes<n> weight = (score(j) - greatest).exp();
        total += weight;
        sum += weight * lanes<n>(xv + first + j * width + c);
      }
      lanes<n>(yv + row * width + c) = sum / total;
      lanes<n>(greatest_scores + row * width + c) = greatest;
      lanes<n>(inverse + row * width + c) = 1 / total;
    });
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x), dgates = t.gradient_sink(gates),
                       dbias = t.gradient_sink(bias);
    const RowSums sums(t.pool(), batch * blocks, block * width, 1);
    sums.for_rows([=](Index row, Real* bias_sums) {
      for_lanes(width, [&]<int n>(Index c) {
        const Index to = row * width + c;
        for (Index j = 0; j < block; ++j) {
          const Index of_bias = j * width + c, at = first_token(row) + of_bias;
          const Lanes<n> score = lanes<n>(gate + at) + lanes<n>(b + of_bias);
          const Lanes<n> weight =
              (score - lanes<n>(greatest_scores + to)).exp() * lanes<n>(inverse + to);
          const Lanes<n> of_x = weight * lanes<n>(dy + to);
          const Lanes<n> of_score = of_x * (lanes<n>(xv + at) - lanes<n>(yv + to));
          if (dx) put_lanes(dx, at, of_x);
          if (dgates) put_lanes(dgates, at, of_score);
          lanes<n>(bias_sums + of_bias) += of_score;
        }
      });
    });
    sums.put_sum(0, dbias);
    for (const GradientSink& sink : {dx, dgates}) {  // nothing reads the tokens of an open block
      for (Index i = 0; sink && sink.write == Write::assign && i < batch; ++i)
        std::fill_n(sink.data + (i * length + blocks * block) * width,
                    (length - blocks * block) * width, Real{0});
    }
  });
  return y;
}

}  // namespace headcount
