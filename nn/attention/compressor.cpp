#include "nn/attention/compressor.h"

#include <utility>

namespace headcount {

Compressor::Compressor(LayerWeights& weights, CompressorPlan plan)
    : plan_(std::move(plan)),
      kv_proj_(weights.row_matrix(plan_.weights + "kv_proj", weights.plan().dim, plan_.channels())),
      gate_proj_(
          weights.row_matrix(plan_.weights + "gate_proj", weights.plan().dim, plan_.channels())),
      position_bias_(weights.for_rows([&] {
        return weights.numbers(plan_.weights + "position_bias", {plan_.block, plan_.channels()},
                               Initializer::zeros());
      })),
      kv_norm_(
          weights.for_rows([&] { return weights.norm(plan_.weights + "kv_norm", plan_.width); })) {}

std::optional<Var> Compressor::operator()(Var x, Memory& memory) const {
  OpenBlock open;
  const auto state = [&](const char* name, Index tokens, Index width) {
    return memory.state(plan_.kept + name, tokens, width, plan_.block);
  };
  open.x = state("open_kv", plan_.block - 1, plan_.channels());
  open.gates = state("open_gate", plan_.block - 1, plan_.channels());
  if (plan_.over == PoolOver::two_blocks) {
    open.before_x = state("overlap_kv", plan_.block, plan_.width);
    open.before_gates = state("overlap_gate", plan_.block, plan_.width);
  }
  if (memory.is_cached()) open.tokens = memory.first_position();
  const std::optional<Var> rows = pool_tokens((*kv_proj_)(x), (*gate_proj_)(x),
                                              x.tape->parameter(*position_bias_), plan_.over, open);
  if (!rows) return std::nullopt;
  return (*kv_norm_)(*rows);
}

}  // namespace headcount
