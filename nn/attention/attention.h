#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "nn/attention/kind.h"
#include "nn/layers.h"

namespace headcount {

/// Weights of a layer, added to a store as its description lists them.
class LayerWeights {
 public:
  LayerWeights(ParameterStore& parameters, const std::string& prefix, const AttentionPlan& plan,
               const WeightInit& init);

  /// Weights of that name, if the layer declares them. `Weights` is Linear, Norm, ShortConvolution,
  /// CanonLayer, or ParameterId for a vector or a table.
  template <class Weights>
  std::optional<Weights> find(std::string_view name) const {
    const auto found = all_.find(name);
    if (found == all_.end()) return {};
    return std::get<Weights>(found->second);
  }
  /// Weights of that name. Throws ShapeError if the layer declares none.
  template <class Weights>
  Weights get(std::string_view name) const {
    require_setting(all_.contains(name), "the layer declares no weights '", name, "'");
    return *find<Weights>(name);
  }
  /// The output projection, if there is one.
  std::optional<Linear> output() const { return find<Linear>(output_); }

 private:
  std::map<std::string, std::variant<Linear, Norm, ShortConvolution, CanonLayer, ParameterId>,
           std::less<>>
      all_;
  std::string output_;
};

/// Makes queries, with a latent where the layer declares one.
class QueryProjection {
 public:
  explicit QueryProjection(const LayerWeights& weights, const QueryLatent& latent = {});
  /// x [B, T, dim] -> [B, T, heads width]
  Var operator()(Var x) const { return of_latent(latent(x)); }
  /// What q_b_proj reads: the latent [B, T, rank], or x itself without one.
  Var latent(Var x) const;
  Var of_latent(Var latent) const { return b_(latent); }

  /// Projections that a layer declares for queries `width` wide, all heads together.
  static std::vector<Projection> declare(Index dim, const QueryLatent& latent, Index width);

 private:
  std::optional<Linear> a_;
  Linear b_;
  std::optional<Norm> norm_;
  double factor_;
};

/// Base class of attention layers, with the parameters and operations that all kinds have.
class Attention {
 public:
  /// RoPE rotates the last `rotary_width` dimensions of a head; 0: none.
  Attention(const AttentionPlan& plan, const LayerWeights& weights, Index rotary_width);
  virtual ~Attention() = default;

  /// Output for the next T tokens of each sequence, after those in `memory`: x [B, T, dim] ->
  /// [B, T, dim], or [B, T, heads v_dim] without output projection. Training, prefill and decoding
  /// take this one path.
  virtual Var forward(Var x, Memory& memory) const = 0;

 protected:
  const AttentionPlan& plan() const { return plan_; }
  /// The outputs x [B, T, width] of a projection after Canon layer B, of which they are `part`; x
  /// itself without such a layer.
  Var convolved(std::string_view part, Var x, Memory& memory) const;
  /// Rotates x [B, T, heads, width] by position if positions are rotary.
  Var rotate(Var x, const Memory& memory) const;
  /// Rotates rows x [B, blocks, heads, width] of the next blocks of `block` tokens by the position
  /// of a block's first token.
  Var rotate_blocks(Var x, Index block, const Memory& memory) const;
  /// Rotates the first dimensions of x [B, T, heads, width], as many as `rotate` rotates of the
  /// last, in pairs of `layout`.
  Var rotate_first(Var x, RotaryLayout layout, const Memory& memory) const;
  /// Undoes `rotate`.
  Var rotate_back(Var x, const Memory& memory) const;
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
  std::optional<Linear> gate_proj_, output_;
  std::optional<ParameterId> sinks_;
  std::optional<Norm> q_norm_, k_norm_, rope_key_norm_;
  std::optional<CanonLayer> canon_;
  std::map<std::string, Index, std::less<>> canon_parts_;  // their first channels
  std::optional<RotaryTable> rotary_;
};

/// AttentionKind::make for a kind whose layer has the constructor Layer(plan, weights).
template <class Layer>
std::unique_ptr<Attention> make_layer(const AttentionPlan& plan, const LayerWeights& weights) {
  return std::make_unique<Layer>(plan, weights);
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
