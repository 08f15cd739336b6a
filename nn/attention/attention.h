#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "nn/attention/kind.h"
#include "nn/layers.h"

namespace headcount {

/// The parameters of a layer, added to a store as its description lists them.
class LayerWeights {
 public:
  LayerWeights(ParameterStore& parameters, const std::string& prefix, const AttentionPlan& plan,
               const WeightInit& init);

  /// Throws ShapeError if the description has none of that name.
  Linear linear(std::string_view name) const;
  std::optional<Linear> find_linear(std::string_view name) const;
  std::optional<Norm> find_norm(std::string_view name) const;
  /// A convolution's taps or a vector.
  ParameterId parameter(std::string_view name) const;
  /// The output's projection, if there is one.
  std::optional<Linear> output() const { return find_linear(output_); }

 private:
  std::map<std::string, Linear, std::less<>> linears_;
  std::map<std::string, Norm, std::less<>> norms_;
  std::map<std::string, ParameterId, std::less<>> parameters_;
  std::string output_;
};

/// What makes queries: q_proj, or, where the layer declares them, q_a_proj into a latent, its norm
/// q_a_layernorm, and q_b_proj.
class QueryProjection {
 public:
  /// The latent is multiplied by `latent_scale` after its norm.
  explicit QueryProjection(const LayerWeights& weights, double latent_scale = 1);
  /// x [B, T, dim] -> [B, T, heads width]
  Var operator()(Var x) const;

  /// What a layer declares for queries that are `width` wide together; `rank` 0: no latent.
  static std::vector<Projection> declare(Index dim, Index rank, Index width, bool norm);

 private:
  std::optional<Linear> a_;
  Linear b_;
  std::optional<Norm> norm_;
  double latent_scale_;
};

/// An attention layer with its parameters, and what the kinds share.
class Attention {
 public:
  /// The last `rotary_width` elements of a head are rotated by position; 0: none.
  Attention(const AttentionPlan& plan, const LayerWeights& weights, Index rotary_width);
  virtual ~Attention() = default;

  /// The next T tokens of each sequence, x [B, T, dim], which `memory` follows -> [B, T, dim] (or
  /// [B, T, heads v_dim] without output projection). One path for training, prefill and decoding.
  virtual Var forward(Var x, Memory& memory) const = 0;

 protected:
  const AttentionPlan& plan() const { return plan_; }
  /// x [B, T, heads, width], rotated by position, if positions are rotary; or rotated `back`.
  Var rotate(Var x, const Memory& memory, bool back = false) const;
  /// q or k [B, T, heads, width] as the score scale wants it: to unit length for QK-norm.
  Var normalize_for_scores(Var x) const;
  /// The same for keys that are kept in parts, or as more than keys: the parts themselves, or, for
  /// QK-norm, keys that are computed of all of them.
  std::vector<Rows> normalize_for_scores(Tape& tape, std::vector<Rows> parts) const;
  /// Options of the fused op for q and k of `width` elements per head.
  AttentionOptions options(Index width, const Memory& memory) const;
  /// The heads' outputs [B, T, heads, v], gated by x if the layer has a gate, through the output's
  /// projection. Gated attention: Qiu et al. (2025).
  Var output(Var x, Var heads) const;

 private:
  AttentionPlan plan_;
  std::optional<Linear> gate_proj_, output_;
  std::optional<RotaryTable> rotary_;
};

/// What a kind whose layer is a `Layer(plan, weights)` has for its `make`.
template <class Layer>
std::unique_ptr<Attention> make_layer(const AttentionPlan& plan, const LayerWeights& weights) {
  return std::make_unique<Layer>(plan, weights);
}
/// Adds the parameters under `prefix` and returns the layer.
std::unique_ptr<Attention> make_attention(ParameterStore& parameters, const std::string& prefix,
                                          const AttentionPlan& plan, const WeightInit& init);
/// An empty cache for a layer of `plan`. Throws ShapeError for a form that it
/// does not have.
LayerCache make_cache(const AttentionPlan& plan, const CacheOptions& options);

/// x [B, T, heads width] as [B, T, heads, width].
Var split_heads(Var x, Index heads);
/// The other way round.
Var merge_heads(Var x);

}  // namespace headcount
