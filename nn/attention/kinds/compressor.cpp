#include "nn/attention/kinds/compressor.h"

#include <array>
#include <utility>
#include <vector>

#include "autograd/products/mac_counter.h"

namespace headcount {

Compressor::Compressor(LayerWeights& weights, CompressorPlan plan)
    : plan_(std::move(plan)),
      kv_proj_(weights.row_matrix(plan_.weights + "kv_proj", weights.plan().dim, plan_.channels(),
                                  {}, {}, &Shared::pooled)),
      gate_proj_(weights.row_matrix(plan_.weights + "gate_proj", weights.plan().dim,
                                    plan_.channels(), {}, {}, &Shared::pooled)),
      position_bias_(weights.for_rows(
          [&] {
            return weights.numbers(plan_.weights + "position_bias", {plan_.block, plan_.channels()},
                                   Initializer::zeros());
          },
          &Shared::pooled)),
      kv_norm_(weights.for_rows(
          [&] { return weights.norm(plan_.weights + "kv_norm", plan_.width); }, &Shared::pooled)) {}

namespace {

// Tokens [first, first + count) of x [B, T, C].
Var tokens_of(Var x, Index first, Index count) {
  const Index batch = x.shape()[0], length = x.shape()[1], channels = x.shape()[2];
  if (count == length) return x;
  const Var flat = reshape(x, {batch, length * channels});
  return reshape(columns(flat, first * channels, count * channels), {batch, count, channels});
}

}  // namespace

// Inputs from the first token of the open block on, [B, tokens blocks, width]. A block's row reads
// its own tokens and, if there are 2 blocks, other channels of those one block earlier, which are
// `none` before the first block.
Var Compressor::inputs(const Linear& projection, std::string_view name, Var x, Memory& memory,
                       Real none) const {
  const Index block = plan_.block, length = x.shape()[1];
  Var y = projection(x);
  if (plan_.blocks == 2) {
    const std::vector<Var> halves = split(y, std::array{plan_.width, plan_.width});
    const Var earlier = memory.after_earlier(plan_.kept + "overlap_" + std::string(name), halves[0],
                                             block, block, none);
    y = concat(tokens_of(earlier, 0, length), halves[1]);
  }
  const Var all =
      memory.after_earlier(plan_.kept + "open_" + std::string(name), y, block - 1, block);
  const Index count = length + (memory.is_cached() ? memory.first_position() % block : 0);
  return reshape(tokens_of(all, all.shape()[1] - count, count),
                 {x.shape()[0], count * plan_.blocks, plan_.width});
}

std::optional<Var> Compressor::operator()(Var x, Memory& memory) const {
  constexpr Real kNone = Real{-1e30};  // a gate whose token has no weight
  const Var kv = inputs(*kv_proj_, "kv", x, memory, 0);
  const Var gates = inputs(*gate_proj_, "gate", x, memory, kNone);
  // Tokens of the open block were counted when they came.
  const Index fresh = x.shape()[0] * x.shape()[1] * plan_.channels();
  if (!x.tape->is_dry()) count_macs(fresh - kv.shape().size());
  const Var bias =
      reshape(x.tape->parameter(*position_bias_), {plan_.block * plan_.blocks, plan_.width});
  const std::optional<Var> rows = pool_tokens(kv, gates, bias);
  if (!rows) return std::nullopt;
  return (*kv_norm_)(*rows);
}

}  // namespace headcount
