#include "nn/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/base/text.h"

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

CausalConvolution LayerWeights::convolution(std::string_view name, Index channels, Index taps) {
  return {parameters_, path(name), channels,
          taps,        Skip::none, Initializer::normal(init_.deviation)};
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

Attention::Attention(const AttentionPlan& plan, Index rotary_width, const Output& output)
    : plan_(plan), to_output_(output) {
  if (plan.rotary && rotary_width > 0)
    rotary_.emplace(rotary_width, plan.max_positions, plan.rope_theta);
}

void Attention::add_qk_norms(LayerWeights& weights, const QkNorms& widths) {
  if (!plan_.qk_norm) return;
  q_norm_ = weights.norm("q_norm", widths.q);
  if (widths.k > 0 && !(widths.k_is_cached && plan_.shares()))
    k_norm_ = weights.norm("k_norm", widths.k);
  if (widths.rope_key > 0 && !plan_.shares())
    rope_key_norm_ = weights.norm("k_rope_norm", widths.rope_key);
}

void Attention::add_common(LayerWeights& weights) {
  if (plan_.canon.has('B')) {
    require_setting(
        weights.canon_channels_ > 0,
        "`canon` B convolves queries, keys and values, and {} has none for it; leave B out",
        plan_.kind().name);
    canon_ = canon_layer(weights.parameters_, weights.path("canonB"), weights.canon_channels_,
                         plan_.canon_taps);
    canon_parts_ = weights.canon_parts_;
  }
  if (plan_.sinks)  // as gpt-oss starts them
    sinks_ = weights.numbers("sinks", {plan_.heads}, Initializer::normal(0.02));
  const Index width = to_output_.heads * to_output_.width;
  if (plan_.gate) gate_proj_ = weights.matrix("gate_proj", plan_.dim, width);
  if (plan_.output_projection)
    output_.emplace(weights.parameters_, weights.path(to_output_.projection),
                    Linear::Size{.in = width, .out = plan_.dim, .bias = plan_.bias},
                    weights.init_.residual_deviation);
}

Var Attention::convolved(std::string_view part, Var x, Memory& memory) const {
  if (!canon_) return x;
  require_setting(memory.key_mask().empty(),
                  "`canon` mixes tokens before attention; it has no key mask");
  const auto found = canon_parts_.find(part);
  require_setting(found != canon_parts_.end(), "the layer declares no part '{}' of canonB", part);
  return (*canon_)(x, "canonB_" + found->first, memory, found->second);
}

Var Attention::rotate(Var x, const Memory& memory, Rotation rotation) const {
  if (!rotary_) return x;
  return rotary(x, *rotary_, plan_.rotary_layout, memory.first_position(), rotation);
}

Var Attention::rotate_blocks(Var x, Index block, const Memory& memory) const {
  if (!rotary_) return x;
  return rotary(x, *rotary_, plan_.rotary_layout, memory.first_position() / block * block,
                Rotation::forward, block);
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

Var Attention::normalize_for_scores(Var x) const {
  if (plan_.score_scale.kind != ScoreScale::Kind::qk_norm) return x;
  constexpr Real kTiny = Real{1e-12};  // against 0 / 0 only
  const double length = std::sqrt(static_cast<double>(x.shape().last()));
  return l2_norm(x, kTiny, static_cast<Real>(1 / length));
}

std::vector<Rows> Attention::normalize_for_scores(Tape& tape, std::vector<Rows> parts) const {
  if (plan_.score_scale.kind != ScoreScale::Kind::qk_norm) return parts;
  Var whole = read_rows(tape, parts.front());
  for (const Rows& part : std::span(parts).subspan(1)) whole = concat(whole, read_rows(tape, part));
  return {normalize_for_scores(whole)};
}

Var Attention::mixed_values(Var v, Memory& memory) const {
  const std::optional<Var> first = memory.first_values();
  if (!first) memory.set_first_values(v);
  if (!first || plan_.value_residual == 0) return v;
  return add(scale(v, static_cast<Real>(1 - plan_.value_residual)),
             scale(*first, static_cast<Real>(plan_.value_residual)));
}

AttentionOptions Attention::options(Tape& tape, Index width, const Memory& memory) const {
  AttentionOptions options;
  options.causal = plan_.causal;
  options.window = plan_.window;
  options.key_mask = memory.key_mask();
  options.stats = memory.stats();
  if (sinks_) options.sinks = tape.parameter(*sinks_);
  const ScoreScale& score = plan_.score_scale;
  options.scale =
      static_cast<Real>(score.by_width() ? 1 / std::sqrt(static_cast<double>(width)) : score.value);
  options.cap = static_cast<Real>(plan_.score_cap);
  if (score.kind == ScoreScale::Kind::row_norm) options.row_scale = RowScale::inverse_norm;
  if (score.kind == ScoreScale::Kind::length) options.row_scale = RowScale::inverse_sqrt_length;
  return options;
}

Var Attention::output(Var x, Var heads) const {
  Var y = merge_heads(heads);
  if (gate_proj_) y = sigmoid_gate((*gate_proj_)(x), y);
  return output_ ? (*output_)(y) : y;
}

std::unique_ptr<Attention> make_attention(ParameterStore& parameters, const std::string& prefix,
                                          const AttentionPlan& plan, const WeightInit& init) {
  LayerWeights weights(parameters, prefix, plan, init);
  return plan.kind().make(plan, weights);
}

LayerCache make_cache(const AttentionPlan& plan, const CacheOptions& options,
                      const std::vector<Kept>& of_block) {
  const std::vector<std::string_view> forms = attention_forms(plan);
  const std::string known = joined(forms);
  require_setting(options.form.empty() || std::ranges::find(forms, options.form) != forms.end(),
                  "{} with these settings cannot compute from its cache in the form {}; choose {}",
                  plan.kind().name, options.form, known.empty() ? "auto" : known);
  CacheOptions own = options;
  own.window = plan.window;
  std::vector<Kept> keeps = cache_parts(plan);
  keeps.insert(keeps.end(), of_block.begin(), of_block.end());
  return {std::move(keeps), own};
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
