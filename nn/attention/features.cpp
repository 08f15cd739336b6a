#include "nn/attention/features.h"

#include <cmath>
#include <span>

namespace headcount {

void AttentionFeatures::add_qk_norms(LayerWeights& weights, const QkNorms& widths) {
  if (!plan_.qk_norm) return;
  q_norm_ = weights.norm("q_norm", widths.q);
  if (widths.k > 0 && !(widths.k_is_cached && plan_.shares()))
    k_norm_ = weights.norm("k_norm", widths.k);
  if (widths.rope_key > 0 && !plan_.shares())
    rope_key_norm_ = weights.norm("k_rope_norm", widths.rope_key);
}

void AttentionFeatures::add_features(LayerWeights& weights, Index width) {
  require_setting(!plan_.qk_norm || q_norm_, "`qk-norm` is not for {}: its layer has no such norms",
                  plan_.kind().name);
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
  if (plan_.gate) gate_proj_ = weights.matrix("gate_proj", plan_.dim, width);
}

Var AttentionFeatures::convolved(std::string_view part, Var x, Memory& memory) const {
  if (!canon_) return x;
  require_setting(memory.key_mask().empty(),
                  "`canon` mixes tokens before attention; it has no key mask");
  const auto found = canon_parts_.find(part);
  require_setting(found != canon_parts_.end(), "the layer declares no part '{}' of canonB", part);
  return (*canon_)(x, "canonB_" + found->first, memory, found->second);
}

Var AttentionFeatures::normalize_for_scores(Var x) const {
  if (plan_.score_scale.kind != ScoreScale::Kind::qk_norm) return x;
  constexpr Real kTiny = Real{1e-12};  // against 0 / 0 only
  const double length = std::sqrt(static_cast<double>(x.shape().last()));
  return l2_norm(x, kTiny, static_cast<Real>(1 / length));
}

std::vector<Rows> AttentionFeatures::normalize_for_scores(Tape& tape,
                                                          std::vector<Rows> parts) const {
  if (plan_.score_scale.kind != ScoreScale::Kind::qk_norm) return parts;
  Var whole = read_rows(tape, parts.front());
  for (const Rows& part : std::span(parts).subspan(1)) whole = concat(whole, read_rows(tape, part));
  return {normalize_for_scores(whole)};
}

Var AttentionFeatures::mixed_values(Var v, Memory& memory) const {
  const std::optional<Var> first = memory.first_values();
  if (!first) memory.set_first_values(v);
  if (!first || plan_.value_residual == 0) return v;
  return add(scale(v, static_cast<Real>(1 - plan_.value_residual)),
             scale(*first, static_cast<Real>(plan_.value_residual)));
}

void AttentionFeatures::set_scores(AttentionOptions& options, Tape& tape, Index width) const {
  if (sinks_) options.sinks = tape.parameter(*sinks_);
  const ScoreScale& score = plan_.score_scale;
  options.scale =
      static_cast<Real>(score.by_width() ? 1 / std::sqrt(static_cast<double>(width)) : score.value);
  options.cap = static_cast<Real>(plan_.score_cap);
  if (score.kind == ScoreScale::Kind::row_norm) options.row_scale = RowScale::inverse_norm;
  if (score.kind == ScoreScale::Kind::length) options.row_scale = RowScale::inverse_sqrt_length;
}

Var AttentionFeatures::gated(Var x, Var y) const {
  return gate_proj_ ? sigmoid_gate((*gate_proj_)(x), y) : y;
}

}  // namespace headcount
