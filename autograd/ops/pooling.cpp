#include <algorithm>

#include "autograd/ops.h"
#include "autograd/ops/row_sums.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

// Inputs of a call, and those of earlier tokens. Tokens and rows are counted from the beginning of
// the block that was open before.
struct Pooling {
  const Real *x, *gates, *bias;  // [B, T, channels], and [m, channels]
  OpenBlock open;
  Index batch, length, channels, block;
  Index halves;     // 1, or 2 for rows pooled over two blocks
  Index before;     // tokens in the open block
  Index first_row;  // the row that the open block becomes, of the whole text

  Index width() const { return channels / halves; }
  Index blocks() const { return (before + length) / block; }
  Index most_terms() const { return halves * block; }
  bool continues() const { return open.tokens >= 0; }

  // Terms [first_term(row), most_terms()) make a row; the last `block` of them are its own tokens.
  Index first_term(Index row) const { return first_row + row == 0 ? (halves - 1) * block : 0; }
  // Channel and row of the bias of a term's numbers.
  Index channel(Index term) const { return term < (halves - 1) * block ? 0 : channels - width(); }
  Index bias_at(Index term) const { return term % block * channels + channel(term); }
  Index token(Index row, Index term) const { return (row - halves + 1) * block + term; }

  // Numbers of token t from channel c on, of x or of the gates.
  const Real* at(const Real* fresh, std::span<const Real> earlier, Index b, Index t,
                 Index c) const {
    if (t < before) return earlier.data() + (b * (block - 1) + t) * channels + c;
    return fresh + (b * length + t - before) * channels + c;
  }
  const Real* term_at(const Real* fresh, std::span<const Real> earlier,
                      std::span<const Real> of_block_before, Index b, Index row, Index term) const {
    const Index t = token(row, term);
    if (t < 0) return of_block_before.data() + (b * block + term) * width();
    return at(fresh, earlier, b, t, channel(term));
  }
  const Real* x_at(Index b, Index row, Index term) const {
    return term_at(x, open.x, open.before_x, b, row, term);
  }
  const Real* gate_at(Index b, Index row, Index term) const {
    return term_at(gates, open.gates, open.before_gates, b, row, term);
  }
};

void check(Tape& tape, Var x, Var gates, Var bias, PoolOver over, const OpenBlock& open) {
  const Shape xs = tape.shape(x), bs = tape.shape(bias);
  require(xs.rank() == 3 && bs.rank() == 2 && tape.shape(gates) == xs && bs[1] == xs[2],
          Op::pool_tokens, "wants x and gates [B, T, D] and a bias [m, D], got ", xs, ", ",
          tape.shape(gates), " and ", bs);
  const bool two = over == PoolOver::two_blocks;
  require(!two || xs[2] % 2 == 0, Op::pool_tokens,
          "wants a half of the channels for each of two blocks, got ", xs);
  if (open.tokens < 0 || tape.is_dry()) return;
  const Index size = xs[0] * (bs[0] - 1) * xs[2], half = two ? xs[0] * bs[0] * xs[2] / 2 : 0;
  require(std::ssize(open.x) == size && std::ssize(open.gates) == size, Op::pool_tokens,
          "an open block must be [B, m - 1, D], for an input ", xs, " and a bias ", bs);
  require(std::ssize(open.before_x) == half && std::ssize(open.before_gates) == half,
          Op::pool_tokens, "the block before must be [B, m, D / 2], for an input ", xs,
          " and a bias ", bs);
  require(!tape.needs_gradient(x) && !tape.needs_gradient(gates) && !tape.needs_gradient(bias),
          Op::pool_tokens, "an open block has no gradient; use a tape that computes none");
}

// Stores for the next call the tokens of the block that is still open and, if rows are pooled over
// two blocks, the first half of the channels of the block before it.
void remember(const Pooling& p) {
  const Index end = p.before + p.length, blocks = p.blocks();
  for (Index b = 0; b < p.batch; ++b) {
    // The block before may consist of tokens that are then overwritten.
    for (Index j = 0; p.halves == 2 && blocks > 0 && j < p.block; ++j) {
      const Index t = (blocks - 1) * p.block + j, slot = (b * p.block + j) * p.width();
      std::copy_n(p.at(p.x, p.open.x, b, t, 0), p.width(), p.open.before_x.data() + slot);
      std::copy_n(p.at(p.gates, p.open.gates, b, t, 0), p.width(),
                  p.open.before_gates.data() + slot);
    }
    for (Index t = std::max(p.before, blocks * p.block); t < end; ++t) {
      const Index slot = (b * (p.block - 1) + t % p.block) * p.channels;
      std::copy_n(p.at(p.x, p.open.x, b, t, 0), p.channels, p.open.x.data() + slot);
      std::copy_n(p.at(p.gates, p.open.gates, b, t, 0), p.channels, p.open.gates.data() + slot);
    }
  }
}

// Writes the rows y and, as in RowSoftmax, `greatest` and `inverse`, each [B, blocks, width].
void pool(const Pooling& p, Real* y, Real* greatest_scores, Real* inverse) {
  const Index blocks = p.blocks(), width = p.width();
  parallel_for(p.batch * blocks, row_chunk(2 * p.block * p.channels), [=](Index place) {
    const Index b = place / blocks, row = place % blocks, first = p.first_term(row);
    for_lanes(width, [&]<int n>(Index c) {
      const auto score = [&](Index j) -> Lanes<n> {
        return lanes<n>(p.gate_at(b, row, j) + c) + lanes<n>(p.bias + p.bias_at(j) + c);
      };
      Lanes<n> greatest = score(first), total = Lanes<n>::Zero(), sum = Lanes<n>::Zero();
      for (Index j = first + 1; j < p.most_terms(); ++j) greatest = greatest.max(score(j));
      for (Index j = first; j < p.most_terms(); ++j) {
        const Lanes<n> weight = (score(j) - greatest).exp();
        total += weight;
        sum += weight * lanes<n>(p.x_at(b, row, j) + c);
      }
      lanes<n>(y + place * width + c) = sum / total;
      lanes<n>(greatest_scores + place * width + c) = greatest;
      lanes<n>(inverse + place * width + c) = 1 / total;
    });
  });
}

// Sets the gradient of channels that reach no row to zero: all of an open block, and the first
// halves of the last block that is complete.
void clear_unused(const Pooling& p, const GradientSink& sink) {
  if (!sink || sink.write == Write::add) return;
  const Index blocks = p.blocks();
  for (Index b = 0; b < p.batch; ++b) {
    for (Index t = (blocks - 1) * p.block; p.halves == 2 && t < blocks * p.block; ++t)
      std::fill_n(sink.data + (b * p.length + t) * p.channels, p.width(), Real{0});
    std::fill_n(sink.data + (b * p.length + blocks * p.block) * p.channels,
                (p.length - blocks * p.block) * p.channels, Real{0});
  }
}

}  // namespace

// With p_j the softmax over the terms j of a row:
//   y = sum of p_j x_j,  dx_j = p_j dy,  dgate_j = dbias_j = p_j (x_j - y) dy
// Each number of x is a term of one row at most.
std::optional<Var> pool_tokens(Var x, Var gates, Var bias, PoolOver over, const OpenBlock& open) {
  Tape& tape = tape_of(x);
  check(tape, x, gates, bias, over, open);
  const Shape shape = tape.shape(x);
  const Index block = tape.shape(bias)[0], tokens = std::max<Index>(0, open.tokens);
  const Pooling p{.x = tape.value(x),
                  .gates = tape.value(gates),
                  .bias = tape.value(bias),
                  .open = open,
                  .batch = shape[0],
                  .length = shape[1],
                  .channels = shape[2],
                  .block = block,
                  .halves = over == PoolOver::two_blocks ? 2 : 1,
                  .before = tokens % block,
                  .first_row = tokens / block};
  const Index blocks = p.blocks(), width = p.width();
  const auto record = [&] {
    return tape.record(Op::pool_tokens, {p.batch, blocks, width}, {x, gates, bias});
  };
  if (tape.is_dry()) {
    const Var y = record();
    tape.dry(y, shape.size());
    return blocks > 0 ? std::optional(y) : std::nullopt;
  }
  count_macs(shape.size());  // tokens of an open block are counted now, not with the row
  if (blocks == 0) {
    if (p.continues()) remember(p);
    return std::nullopt;
  }
  const Var y = record();
  const Real* const yv = tape.value(y);
  Real* const greatest = tape.scratch(p.batch * blocks * width);
  Real* const inverse = tape.scratch(p.batch * blocks * width);
  pool(p, tape.value(y), greatest, inverse);
  if (p.continues()) remember(p);
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x), dgates = t.gradient_sink(gates),
                       dbias = t.gradient_sink(bias);
    const RowSums sums(t.pool(), p.batch * blocks, width, p.most_terms());
    sums.for_rows([=](Index place, Real* bias_sums) {
      const Index b = place / blocks, row = place % blocks;
      for_lanes(width, [&]<int n>(Index c) {
        const Index to = place * width + c;
        for (Index j = p.first_term(row); j < p.most_terms(); ++j) {
          const Index at = (b * p.length + p.token(row, j)) * p.channels + p.channel(j) + c;
          const Lanes<n> score = lanes<n>(p.gates + at) + lanes<n>(p.bias + p.bias_at(j) + c);
          const Lanes<n> weight = (score - lanes<n>(greatest + to)).exp() * lanes<n>(inverse + to);
          const Lanes<n> of_x = weight * lanes<n>(dy + to);
          const Lanes<n> of_score = of_x * (lanes<n>(p.x + at) - lanes<n>(yv + to));
          if (dx) put_lanes(dx, at, of_x);
          if (dgates) put_lanes(dgates, at, of_score);
          lanes<n>(bias_sums + j * width + c) += of_score;
        }
      });
    });
    clear_unused(p, dx);
    clear_unused(p, dgates);
    for (Index j = 0; dbias && j < p.most_terms(); ++j)
      sums.put_sum(j, {dbias.data + p.bias_at(j), dbias.write});
  });
  return y;
}

}  // namespace headcount
