#include "nn/attention/attention.h"

#include <array>

namespace headcount {

Attention::Attention(const AttentionPlan& plan, Index rotary_width, const Output& output)
    : AttentionFeatures(plan), to_output_(output) {
  if (plan.rotary && rotary_width > 0)
    rotary_.emplace(rotary_width, plan.max_positions, plan.rope_theta);
}

void Attention::add_common(LayerWeights& weights) {
  const Index width = to_output_.heads * to_output_.width;
  add_features(weights, width);
  if (plan().output_projection)
    output_.emplace(weights.parameters_, weights.path(to_output_.projection),
                    Linear::Size{.in = width, .out = plan().dim, .bias = plan().bias},
                    weights.init_.residual_deviation);
}

Var Attention::rotate(Var x, const Memory& memory, Rotation rotation, Index block) const {
  if (!rotary_) return x;
  return rotary(x, *rotary_, plan().rotary_layout, memory.first_position() / block * block,
                rotation, block);
}

Var Attention::rotate_first(Var x, RotaryLayout layout, const Memory& memory) const {
  if (!rotary_) return x;
  const Index rotated = rotary_->dim(), width = x.shape().last();
  const auto turn = [&](Var part) {
    return rotary(part, *rotary_, layout, memory.first_position());
  };
  if (rotated == width) return turn(x);
  const std::vector<Var> parts = split(x, std::array{rotated, width - rotated});
  return concat(turn(parts[0]), parts[1]);
}

AttentionOptions Attention::options(Tape& tape, Index width, const Memory& memory) const {
  AttentionOptions options;
  options.causal = plan().causal;
  options.window = plan().window;
  options.key_mask = memory.key_mask();
  options.stats = memory.stats();
  set_scores(options, tape, width);
  return options;
}

Var Attention::output(Var x, Var heads) const {
  const Var y = gated(x, merge_heads(heads));
  return output_ ? (*output_)(y) : y;
}

std::unique_ptr<Attention> make_attention(ParameterStore& parameters, const std::string& prefix,
                                          const AttentionPlan& plan, const WeightInit& init) {
  LayerWeights weights(parameters, prefix, plan, init);
  return plan.kind().make(plan, weights);
}

Var split_heads(Var x, Index heads) {
  const Shape shape = x.shape();
  return reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}

Var merge_heads(Var x) {
  const Shape shape = x.shape();
  return reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
}

}  // namespace headcount
