#include "nn/attention/attention.h"

#include <array>
#include <cmath>

#include "autograd/base/text.h"

namespace headcount {

LayerWeights::LayerWeights(ParameterStore& parameters, const std::string& prefix,
                           const AttentionPlan& plan, const WeightInit& init) {
  const AttentionForm form = describe(plan).forms.front();
  output_ = form.output;
  for (const Projection& p : form.projections) {
    const std::string name = prefix + "." + p.name;
    const double deviation = p.name == output_ ? init.residual_deviation : init.deviation;
    switch (p.form) {
      case Projection::Form::matrix:
        all_.emplace(p.name,
                     Linear(parameters, name,
                            {.in = p.in, .out = p.out, .bias = p.has_bias(plan.bias)}, deviation));
        break;
      case Projection::Form::norm:
        all_.emplace(p.name, Norm(parameters, name, p.out, {.epsilon = plan.norm_epsilon}));
        break;
      case Projection::Form::layer_norm:
        all_.emplace(p.name,
                     Norm(parameters, name, p.out, {NormKind::layer, true, plan.norm_epsilon}));
        break;
      case Projection::Form::vector:
        all_.emplace(p.name, parameters.add(name, {p.out}, p.start.value()));
        break;
      case Projection::Form::table:
        all_.emplace(p.name,
                     parameters.add(name, {p.in, p.out}, p.start.value(), MatrixRows::entries));
        break;
      case Projection::Form::convolution:
        all_.emplace(p.name, ShortConvolution(parameters, name, p.out, p.in, deviation));
        break;
      case Projection::Form::canon:
        all_.emplace(p.name, CanonLayer(parameters, name, p.out, p.in));
        break;
    }
  }
}

QueryProjection::QueryProjection(const LayerWeights& weights, const QueryLatent& latent)
    : a_(weights.find<Linear>("q_a_proj")),
      b_(weights.get<Linear>(a_ ? "q_b_proj" : "q_proj")),
      norm_(weights.find<Norm>(latent.norm)),
      factor_(latent.factor) {}

Var QueryProjection::latent(Var x) const {
  if (!a_) return x;
  Var latent = (*a_)(x);
  if (norm_) latent = (*norm_)(latent);
  return factor_ != 1 ? scale(latent, static_cast<Real>(factor_)) : latent;
}

std::vector<Projection> QueryProjection::declare(Index dim, const QueryLatent& latent,
                                                 Index width) {
  if (latent.rank == 0) return {Projection{"q_proj", dim, width}.in_canon("q")};
  std::vector<Projection> all = {{"q_a_proj", dim, latent.rank}};
  if (latent.normed) all.push_back(Projection::norm(std::string(latent.norm), latent.rank));
  all.push_back(Projection{"q_b_proj", latent.rank, width}.in_canon("q"));
  return all;
}

Attention::Attention(const AttentionPlan& plan, const LayerWeights& weights, Index rotary_width)
    : plan_(plan),
      gate_proj_(weights.find<Linear>("gate_proj")),
      output_(weights.output()),
      sinks_(weights.find<ParameterId>("sinks")),
      q_norm_(weights.find<Norm>(kQNorm)),
      k_norm_(weights.find<Norm>(kKNorm)),
      rope_key_norm_(weights.find<Norm>(kRopeKeyNorm)) {
  if (plan.rotary && rotary_width > 0)
    rotary_.emplace(rotary_width, plan.max_positions, plan.rope_theta);
  canon_ = weights.find<CanonLayer>("canonB");
  if (!canon_) return;
  const AttentionDescription description = describe(plan);
  Index channel = 0;
  for (const Projection& p : description.forms.front().projections) {
    if (p.convolved.empty()) continue;
    canon_parts_[p.convolved] = channel;
    channel += p.out;
  }
}

Var Attention::convolved(std::string_view part, Var x, Memory& memory) const {
  if (!canon_) return x;
  require_setting(memory.key_mask().empty(),
                  "`canon` mixes tokens before attention; it has no key mask");
  const auto found = canon_parts_.find(part);
  require_setting(found != canon_parts_.end(), "the layer declares no part '", part, "' of canonB");
  return (*canon_)(x, memory.state("canonB_" + found->first), found->second);
}

Var Attention::rotate(Var x, const Memory& memory) const {
  return rotary_ ? rotary(x, *rotary_, plan_.rotary_layout, memory.first_position()) : x;
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

Var Attention::rotate_back(Var x, const Memory& memory) const {
  return rotary_
             ? rotary(x, *rotary_, plan_.rotary_layout, memory.first_position(), Rotation::inverse)
             : x;
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
  return plan.kind().make(plan, LayerWeights(parameters, prefix, plan, init));
}

LayerCache make_cache(const AttentionPlan& plan, const CacheOptions& options,
                      const std::vector<Kept>& of_block) {
  AttentionDescription description = describe(plan);
  const std::string known = joined(description.forms, &AttentionForm::name);
  const auto is_wanted = [&](const AttentionForm& form) { return form.name == options.form; };
  require_setting(options.form.empty() || std::ranges::any_of(description.forms, is_wanted),
                  plan.kind().name,
                  " with these settings cannot compute from its cache in the form ", options.form,
                  "; choose ", known.empty() ? "auto" : known);
  CacheOptions own = options;
  own.window = plan.window;
  description.keeps.insert(description.keeps.end(), of_block.begin(), of_block.end());
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
