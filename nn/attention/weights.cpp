#include "nn/attention/weights.h"

#include <cmath>

namespace headcount {

Linear LayerWeights::matrix(std::string_view name, Index in, Index out, std::string_view canon_part,
                            std::optional<bool> bias) {
  if (!canon_part.empty()) {
    canon_parts_.emplace(canon_part, canon_channels_);
    canon_channels_ += out;
  }
  return {parameters_,
          path(name),
          {.in = in, .out = out, .bias = bias.value_or(plan_.bias)},
          init_.deviation};
}

Norm LayerWeights::norm(std::string_view name, Index width, NormKind kind) {
  return {parameters_, path(name), width, {kind, true, plan_.norm_epsilon}};
}

ParameterId LayerWeights::numbers(std::string_view name, const Shape& shape,
                                  const Initializer& start) {
  return parameters_.add(path(name), shape, start, MatrixRows::entries);
}

CausalConvolution LayerWeights::convolution(std::string_view name, Index channels, Index taps,
                                            bool bias) {
  const Initializer start = bias ? Initializer::uniform(1 / std::sqrt(static_cast<double>(taps)))
                                 : Initializer::normal(init_.deviation);
  return {parameters_, path(name), channels, taps, Skip::none, start, bias};
}

QueryProjection::QueryProjection(LayerWeights& weights, Index width, const QueryLatent& latent)
    : a_(latent.rank == 0
             ? std::nullopt
             : std::optional(weights.matrix("q_a_proj", weights.plan().dim, latent.rank))),
      norm_(latent.rank == 0 || !latent.normed
                ? std::nullopt
                : std::optional(weights.norm(latent.norm, latent.rank))),
      b_(a_ ? weights.matrix("q_b_proj", latent.rank, width, "q")
            : weights.matrix("q_proj", weights.plan().dim, width, "q")),
      factor_(latent.factor) {}

Var QueryProjection::latent(Var x) const {
  if (!a_) return x;
  Var latent = (*a_)(x);
  if (norm_) latent = (*norm_)(latent);
  return factor_ != 1 ? scale(latent, static_cast<Real>(factor_)) : latent;
}

}  // namespace headcount
