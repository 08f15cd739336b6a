#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nn/attention/costs.h"
#include "nn/layers.h"

namespace headcount {

/// Adds a layer's weights to a store, under the layer's prefix. The constructor of a layer names
/// each of its weights once: here.
class LayerWeights {
 public:
  LayerWeights(ParameterStore& parameters, std::string prefix, const AttentionPlan& plan,
               const WeightInit& init)
      : parameters_(parameters), prefix_(std::move(prefix)), plan_(plan), init_(init) {}

  const AttentionPlan& plan() const { return plan_; }

  /// `NAME.weight` [out, in] and, if `bias` (default: that of the layer), `NAME.bias` [out].
  /// `canon_part` names its outputs as a part of Canon layer B, through which `forward` passes them
  /// by `Attention::convolved`.
  Linear matrix(std::string_view name, Index in, Index out, std::string_view canon_part = {},
                std::optional<bool> bias = {});
  /// `NAME.weight` [width], and of a LayerNorm `NAME.bias`.
  Norm norm(std::string_view name, Index width, NormKind kind = NormKind::rms);
  /// `NAME`: a vector, or a table of rows that are looked up.
  ParameterId numbers(std::string_view name, const Shape& shape, const Initializer& start);
  /// `NAME.weight` [channels, 1, taps]: the short convolution of linear attentions, without bias.
  CausalConvolution convolution(std::string_view name, Index channels, Index taps);
  /// The weights that `make` adds, which make cached rows and nothing else; none in a layer that
  /// shares, which has no such weights.
  template <std::invocable Make>
  auto for_rows(const Make& make) -> std::optional<decltype(make())> {
    if (plan_.shares()) return std::nullopt;
    return make();
  }
  /// A matrix that makes cached rows and nothing else.
  std::optional<Linear> row_matrix(std::string_view name, Index in, Index out,
                                   std::string_view canon_part = {},
                                   std::optional<bool> bias = {}) {
    return for_rows([&] { return matrix(name, in, out, canon_part, bias); });
  }

 private:
  friend class Attention;
  std::string path(std::string_view name) const { return prefix_ + "." + std::string(name); }

  ParameterStore& parameters_;
  std::string prefix_;
  const AttentionPlan& plan_;
  WeightInit init_;
  std::map<std::string, Index, std::less<>> canon_parts_;  // their first channels
  Index canon_channels_ = 0;
};

/// How a layer makes queries: by q_proj, or with a latent by q_a_proj, an RMSNorm, a factor and
/// q_b_proj.
struct QueryLatent {
  Index rank = 0;  ///< width of the latent; 0: none
  bool normed = true;
  double factor = 1;
  std::string_view norm = "q_a_layernorm";  ///< name of its norm
};

/// Makes queries `width` wide, all heads together; they are part "q" of Canon layer B.
class QueryProjection {
 public:
  QueryProjection(LayerWeights& weights, Index width, const QueryLatent& latent = {});
  /// x [B, T, dim] -> [B, T, width]
  Var operator()(Var x) const { return of_latent(latent(x)); }
  /// What q_b_proj reads: the latent [B, T, rank], or x itself without one.
  Var latent(Var x) const;
  Var of_latent(Var latent) const { return b_(latent); }

 private:
  std::optional<Linear> a_;
  std::optional<Norm> norm_;
  Linear b_;
  double factor_;
};

/// Widths of the norms of `qk-norm`: that of a head, for weights that all heads share (Qwen3), or
/// of all heads side by side, for weights of each head. 0: no such norm.
struct QkNorms {
  Index q, k;
  Index rope_key = 0;       ///< of a rotary key that all heads share
  bool k_is_cached = true;  ///< keys are normed before they are cached, not when they are read
};

/// Base class of attention layers, with the parameters and operations that all kinds have.
class Attention {
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
  /// Adds q_norm, k_norm and k_rope_norm if the plan has `qk-norm`.
  void add_qk_norms(LayerWeights& weights, const QkNorms& widths);
  const AttentionPlan& plan() const { return plan_; }
  /// The outputs x [B, T, width] of a projection after Canon layer B, of which they are `part`; x
  /// itself without such a layer.
  Var convolved(std::string_view part, Var x, Memory& memory) const;
  /// Rotates x [B, T, heads, width] by position, or back, if positions are rotary.
  Var rotate(Var x, const Memory& memory, Rotation rotation = Rotation::forward) const;
  /// Rotates rows x [B, blocks, heads, width] of the next blocks of `block` tokens by the position
  /// of a block's first token.
  Var rotate_blocks(Var x, Index block, const Memory& memory) const;
  /// Rotates the first dimensions of x [B, T, heads, width], as many as `rotate` rotates of the
  /// last, in pairs of `layout`.
  Var rotate_first(Var x, RotaryLayout layout, const Memory& memory) const;
  /// Queries [B, T, heads, width] after the norm of `qk-norm`, if the layer has one.
  Var normed_queries(Var q) const { return q_norm_ ? (*q_norm_)(q) : q; }
  /// Keys likewise.
  Var normed_keys(Var k) const { return k_norm_ ? (*k_norm_)(k) : k; }
  /// Keys that are normed when they are read.
  Rows normed_keys(Tape& tape, const Rows& k) const {
    return k_norm_ ? Rows((*k_norm_)(read_rows(tape, k))) : k;
  }
  /// The one rotary key [B, T, 1, width] of all heads likewise, before it is rotated.
  Var normed_rope_key(Var k) const { return rope_key_norm_ ? (*rope_key_norm_)(k) : k; }
  /// Normalises q or k [B, T, heads, width] as the score scale asks: to unit length for QK-norm.
  Var normalize_for_scores(Var x) const;
  /// Normalises keys that are kept in parts or serve as values too. QK-norm joins all parts into
  /// one; otherwise `parts` are returned as they are.
  std::vector<Rows> normalize_for_scores(Tape& tape, std::vector<Rows> parts) const;
  /// Values of these tokens [B, T, heads, width] mixed with those of the first layer, as
  /// `value-residual` says; in the first layer v itself. Zhou et al., "Value residual learning"
  /// (2024).
  Var mixed_values(Var v, Memory& memory) const;
  /// Options of the fused op on `tape` for q and k of `width` elements per head.
  AttentionOptions options(Tape& tape, Index width, const Memory& memory) const;
  /// Layer output from the heads' outputs [B, T, heads, v]: gated by x if the layer has a gate
  /// (Qiu et al., "Gated attention", 2025), through the output projection if there is one.
  Var output(Var x, Var heads) const;

 private:
  AttentionPlan plan_;
  Output to_output_;
  std::optional<Linear> gate_proj_, output_;
  std::optional<ParameterId> sinks_;
  std::optional<Norm> q_norm_, k_norm_, rope_key_norm_;
  std::optional<CausalConvolution> canon_;
  std::map<std::string, Index, std::less<>> canon_parts_;  // their first channels
  std::optional<RotaryTable> rotary_;
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
/// Empty cache of a layer, with room for what its block keeps besides. Throws ShapeError for a form
/// that the layer does not have.
LayerCache make_cache(const AttentionPlan& plan, const CacheOptions& options,
                      const std::vector<Kept>& of_block = {});

Var split_heads(Var x, Index heads);  ///< [B, T, heads width] -> [B, T, heads, width]
Var merge_heads(Var x);               ///< [B, T, heads, width] -> [B, T, heads width]

}  // namespace headcount
