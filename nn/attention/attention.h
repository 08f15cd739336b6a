#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "nn/attention/features.h"

namespace headcount {

/// Base class of attention layers: rotary positions, options of the fused op, and the way from the
/// heads to the layer's output. What a kind may have besides is in AttentionFeatures.
class Attention : public AttentionFeatures {
 public:
  /// The output projection, which reads `heads` heads of `width` numbers.
  struct Output {
    Index heads, width;
    std::string_view projection = "o_proj";
  };
  /// RoPE rotates the last `rotary_width` dimensions of a head; 0: none.
  Attention(const AttentionPlan& plan, Index rotary_width, const Output& output);
  const Output& to_output() const { return to_output_; }
  virtual ~Attention() = default;

  /// Output for the next T tokens of each sequence, after those in `memory`: x [B, T, dim] ->
  /// [B, T, dim], or [B, T, heads width] without output projection. Training, prefill and decoding
  /// take this one path.
  virtual Var forward(Var x, Memory& memory) const = 0;

  /// Adds the weights that all kinds have, after the layer's own: Canon layer B, sinks, gate_proj
  /// and the output projection. Throws ShapeError if the settings ask for what the layer lacks.
  void add_common(LayerWeights& weights);

 protected:
  /// Rotates x [B, T, heads, width] by position, or back, if positions are rotary. With `block`, x
  /// [B, blocks, heads, width] has rows of blocks of tokens, at the position of their first token.
  Var rotate(Var x, const Memory& memory, Rotation rotation = Rotation::forward,
             Index block = 1) const;
  /// Rotates the first dimensions of x [B, T, heads, width], as many as `rotate` rotates of the
  /// last, in pairs of `layout`.
  Var rotate_first(Var x, RotaryLayout layout, const Memory& memory) const;
  /// Options of the fused op on `tape` for q and k of `width` elements per head.
  AttentionOptions options(Tape& tape, Index width, const Memory& memory) const;
  /// Layer output from the heads' outputs [B, T, heads, v]: gated by x if the layer has a gate
  /// (Qiu et al., "Gated attention", 2025), through the output projection if there is one.
  Var output(Var x, Var heads) const;

 private:
  Output to_output_;
  std::optional<RotaryTable> rotary_;
  std::optional<Linear> output_;
};

/// `kind` with the settings of the struct Sizes, its `check(plan)`, which throws ShapeError that
/// names settings which do not fit together, and layers made by Layer(plan, sizes, weights).
template <class Layer, class Sizes>
constexpr AttentionKind attention_of(AttentionKind kind) {
  kind.settings = settings_of<Sizes>;
  kind.check = [](const AttentionPlan& plan) { plan.read<Sizes>().check(plan); };
  kind.make = [](const AttentionPlan& plan, LayerWeights& weights) -> std::unique_ptr<Attention> {
    auto layer = std::make_unique<Layer>(plan, plan.read<Sizes>(), weights);
    layer->add_common(weights);
    return layer;
  };
  return kind;
}
/// Adds the layer's parameters to the store under `prefix` and returns the layer.
std::unique_ptr<Attention> make_attention(ParameterStore& parameters, const std::string& prefix,
                                          const AttentionPlan& plan, const WeightInit& init);
Var split_heads(Var x, Index heads);  ///< [B, T, heads width] -> [B, T, heads, width]
Var merge_heads(Var x);               ///< [B, T, heads, width] -> [B, T, heads width]

}  // namespace headcount
