#include "nn/attention/attention.h"

#include <cmath>

#include "autograd/error.h"

namespace headcount {

LayerWeights::LayerWeights(ParameterStore& parameters, const std::string& prefix,
                           const AttentionConfig& config, const WeightInit& init) {
  const AttentionDescription description = describe(config);
  for (const Projection& p : description.forms.front().projections) {
    const std::string name = prefix + "." + p.name;
    if (p.in == 0) {
      norms_.emplace(p.name,
                     Norm(parameters, name, p.out, NormKind::rms, false, config.norm_epsilon));
      continue;
    }
    const bool residual = p.name == "o_proj";
    linears_.emplace(p.name, Linear(parameters, name, p.in, p.out, config.bias,
                                    residual ? init.residual_deviation : init.deviation));
  }
}

std::optional<Linear> LayerWeights::find_linear(std::string_view name) const {
  const auto found = linears_.find(name);
  return found == linears_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Norm> LayerWeights::find_norm(std::string_view name) const {
  const auto found = norms_.find(name);
  return found == norms_.end() ? std::nullopt : std::optional(found->second);
}

Linear LayerWeights::linear(std::string_view name) const {
  const std::optional<Linear> found = find_linear(name);
  if (!found) throw ShapeError("the layer declares no projection '" + std::string(name) + "'");
  return *found;
}

Attention::Attention(const AttentionConfig& config, const LayerWeights& weights, Index rotary_width)
    : config_(config), o_proj_(weights.find_linear("o_proj")) {
  if (config.rotary && rotary_width > 0)
    rotary_.emplace(rotary_width, config.positions, config.rope_theta);
}

Var Attention::rotate(Var x, const Memory& memory) const {
  return rotary_ ? rotary(x, *rotary_, *config_.rotary_layout, memory.first_position()) : x;
}

Var Attention::normalize_for_scores(Var x) const {
  if (config_.score_scale.kind != ScoreScale::Kind::qk_norm) return x;
  constexpr Real kTiny = Real{1e-12};  // against 0 / 0 only
  // RMSNorm leaves vectors of length sqrt(width).
  const double length = std::sqrt(static_cast<double>(x.shape().last()));
  return scale(rms_norm(x, std::nullopt, kTiny), static_cast<Real>(1 / length));
}

AttentionOptions Attention::options(Index width, const Memory& memory) const {
  AttentionOptions options;
  options.causal = config_.causal;
  options.window = config_.window;
  options.dropout = static_cast<Real>(config_.dropout);
  options.key_mask = memory.key_mask();
  options.stats = memory.stats();
  const double inverse_sqrt = 1 / std::sqrt(static_cast<double>(width));
  switch (config_.score_scale.kind) {
    case ScoreScale::Kind::inverse_sqrt:
      options.scale = static_cast<Real>(inverse_sqrt);
      break;
    case ScoreScale::Kind::none:
    case ScoreScale::Kind::qk_norm:
      options.scale = 1;
      break;
    case ScoreScale::Kind::row_norm:
      options.row_scale = RowScale::inverse_norm;
      options.scale = 1;
      break;
    case ScoreScale::Kind::length:
      options.row_scale = RowScale::inverse_sqrt_length;
      options.scale = static_cast<Real>(inverse_sqrt);
      break;
    case ScoreScale::Kind::number:
      options.scale = static_cast<Real>(config_.score_scale.value);
      break;
  }
  return options;
}

Var Attention::output(Var heads) const {
  return o_proj_ ? (*o_proj_)(merge_heads(heads)) : merge_heads(heads);
}

std::unique_ptr<Attention> make_attention(ParameterStore& parameters, const std::string& prefix,
                                          const AttentionConfig& config, const WeightInit& init) {
  return attention_kind(config.kind).make(config, LayerWeights(parameters, prefix, config, init));
}

LayerCache make_cache(const AttentionConfig& config, const CacheOptions& options) {
  AttentionDescription description = describe(config);
  std::string known;
  for (const AttentionForm& form : description.forms)
    known += (known.empty() ? "" : ", ") + form.name;
  const auto is_wanted = [&](const AttentionForm& form) { return form.name == options.form; };
  if (!options.form.empty() && std::ranges::none_of(description.forms, is_wanted)) {
    throw ShapeError(config.kind + " with these settings cannot decode " + options.form +
                     "; it can decode " + (known.empty() ? "in one way only" : known));
  }
  CacheOptions own = options;
  own.capacity = config.cached_tokens(options.capacity);
  return {std::move(description.keeps), own};
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
