#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nn/attention/kind.h"
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
  /// `NAME.weight` [channels, 1, taps]: the short convolution of linear attentions. With `bias` it
  /// has `NAME.bias` [channels], and both start uniform in +- 1 / sqrt(taps), as PyTorch's
  /// convolutions do.
  CausalConvolution convolution(std::string_view name, Index channels, Index taps,
                                bool bias = false);
  /// Weights that only make cached rows: `make()`, or none in a layer that reads these rows, of
  /// tokens or pooled ones, of another layer.
  template <std::invocable Make>
  auto for_rows(const Make& make, bool Shared::*which = &Shared::rows)
      -> std::optional<decltype(make())> {
    if (plan_.shared().*which) return std::nullopt;
    return make();
  }
  /// A projection to cached rows, such as k_proj; none in a layer that reads another's cache.
  std::optional<Linear> row_matrix(std::string_view name, Index in, Index out,
                                   std::string_view canon_part = {}, std::optional<bool> bias = {},
                                   bool Shared::*which = &Shared::rows) {
    return for_rows([&] { return matrix(name, in, out, canon_part, bias); }, which);
  }

 private:
  friend class AttentionFeatures;
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

}  // namespace headcount
