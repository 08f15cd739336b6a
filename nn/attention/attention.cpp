#include "nn/attention/attention.h"

#include <array>
#include <charconv>
#include <cmath>

#include "autograd/error.h"

namespace headcount {

namespace {

constexpr std::array<std::pair<ScoreScale::Kind, std::string_view>, 5> kScaleNames = {{
    {ScoreScale::Kind::inverse_sqrt, "inv-sqrt"},
    {ScoreScale::Kind::none, "none"},
    {ScoreScale::Kind::qk_norm, "qk-norm"},
    {ScoreScale::Kind::row_norm, "row-norm"},
    {ScoreScale::Kind::length, "length"},
}};

}  // namespace

ScoreScale ScoreScale::parse(std::string_view text) {
  for (const auto& [kind, name] : kScaleNames) {
    if (text == name) return {kind, 1};
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) ||
      value <= 0) {
    throw ShapeError("'" + std::string(text) +
                     "' is not inv-sqrt, none, qk-norm, row-norm, length or a positive number");
  }
  return {Kind::number, value};
}

std::string ScoreScale::text() const {
  for (const auto& [name_kind, name] : kScaleNames) {
    if (kind == name_kind) return std::string(name);
  }
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr};
}

const AttentionKind& attention_kind(std::string_view name) {
  std::string known;
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->name == name) return *kind;
    known += (known.empty() ? "" : ", ") + std::string(kind->name);
  }
  throw ShapeError("unknown attention '" + std::string(name) + "'; known are " + known);
}

void resolve(AttentionConfig& config) {
  if (config.head_dim == kUnset) {
    require_setting(config.dim % config.heads == 0,
                    "--heads " + std::to_string(config.heads) + " does not divide --dim " +
                        std::to_string(config.dim) + "; choose another or give --head-dim");
    config.head_dim = config.dim / config.heads;
  }
  attention_kind(config.kind).resolve(config);
}

void AttentionCosts::add_linear(Count in, Count out, bool bias) {
  linear_macs_per_token += in * out;
  parameters += in * out + (bias ? out : 0);
}

Index cache_elements_per_token(const AttentionConfig& config) {
  return attention_kind(config.kind).costs(config).front().cache_elements_per_token.value();
}

std::unique_ptr<Attention> make_attention(ParameterStore& parameters, const std::string& prefix,
                                          const AttentionConfig& config, const WeightInit& init) {
  return attention_kind(config.kind).make(parameters, prefix, config, init);
}

void resolve_rotary_heads(AttentionConfig& config) {
  if (!config.rotary_layout) config.rotary_layout = RotaryLayout::half;
  require_setting(!config.rotary || config.head_dim % 2 == 0,
                  "--positions rope turns pairs and needs an even head dimension, --head-dim is " +
                      std::to_string(config.head_dim));
}

AttentionOptions attention_options(const AttentionConfig& config, Index width,
                                   std::span<const std::uint8_t> key_mask) {
  AttentionOptions options;
  options.causal = config.causal;
  options.window = config.window;
  options.dropout = static_cast<Real>(config.dropout);
  options.key_mask = key_mask;
  const double inverse_sqrt = 1 / std::sqrt(static_cast<double>(width));
  switch (config.score_scale.kind) {
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
      options.scale = static_cast<Real>(config.score_scale.value);
      break;
  }
  return options;
}

Var split_heads(Var x, Index heads) {
  const Shape shape = x.shape();
  return reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}

Var merge_heads(Var x) {
  const Shape shape = x.shape();
  return reshape(x, {shape[0], shape[1], shape[2] * shape[3]});
}

Var normalize_for_scores(Var x, const ScoreScale& score_scale) {
  if (score_scale.kind != ScoreScale::Kind::qk_norm) return x;
  constexpr Real kTiny = Real{1e-12};  // against 0 / 0 only
  // RMSNorm leaves vectors of length sqrt(width).
  const double length = std::sqrt(static_cast<double>(x.shape().last()));
  return scale(rms_norm(x, std::nullopt, kTiny), static_cast<Real>(1 / length));
}

void require_setting(bool condition, const std::string& message) {
  if (!condition) throw ShapeError(message);
}

}  // namespace headcount
