#include "nn/attention/compressor.h"

#include <utility>

namespace headcount {

Compressor::Compressor(const LayerWeights& weights, CompressorPlan plan)
    : plan_(std::move(plan)),
      kv_proj_(weights.find<Linear>(plan_.weights + "kv_proj")),
      gate_proj_(weights.find<Linear>(plan_.weights + "gate_proj")),
      position_bias_(weights.find<ParameterId>(plan_.weights + "position_bias")),
      kv_norm_(weights.find<Norm>(plan_.weights + "kv_norm")) {}

std::optional<Var> Compressor::operator()(Var x, Memory& memory) const {
  OpenBlock open;
  if (memory.is_cached()) {
    open.x = memory.state(plan_.kept + "open_kv");
    open.gates = memory.state(plan_.kept + "open_gate");
    if (plan_.over == PoolOver::two_blocks) {
      open.before_x = memory.state(plan_.kept + "overlap_kv");
      open.before_gates = memory.state(plan_.kept + "overlap_gate");
    }
    open.tokens = memory.first_position();
  }
  const std::optional<Var> rows = pool_tokens((*kv_proj_)(x), (*gate_proj_)(x),
                                              x.tape->parameter(*position_bias_), plan_.over, open);
  if (!rows) return std::nullopt;
  return (*kv_norm_)(*rows);
}

void Compressor::declare(const CompressorPlan& plan, AttentionDescription& description) {
  using Role = Projection::Role;
  description.keeps.push_back(
      {.name = plan.rows(), .heads = 1, .width = plan.width, .block = plan.block});
  const auto add_state = [&](const char* name, Index tokens, Index width) {
    description.keeps.push_back({.name = plan.kept + name,
                                 .heads = tokens,
                                 .width = width,
                                 .per_sequence = true,
                                 .block = plan.block});
  };
  for (const char* name : {"open_kv", "open_gate"})
    add_state(name, plan.block - 1, plan.channels());
  for (const char* name : {"overlap_kv", "overlap_gate"}) {
    if (plan.over == PoolOver::two_blocks) add_state(name, plan.block, plan.width);
  }
  AttentionForm& form = description.forms.front();
  for (const char* name : {"kv_proj", "gate_proj"})
    form.projections.push_back({plan.weights + name, plan.dim, plan.channels(), Role::to_cache});
  form.projections.push_back({.name = plan.weights + "position_bias",
                              .in = plan.block,
                              .out = plan.channels(),
                              .role = Role::to_cache,
                              .form = Projection::Form::table,
                              .start = Initializer::zeros()});
  form.projections.push_back(
      Projection::norm(plan.weights + "kv_norm", plan.width, Role::to_cache));
  form.macs_to_cache += plan.channels();  // to pool
  form.block = plan.block;
}

}  // namespace headcount
