#include "nn/attention/kind.h"

#include "autograd/error.h"

namespace headcount {

const AttentionKind& attention_kind(std::string_view name) {
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->name == name) return *kind;
  }
  throw ShapeError("unknown attention '" + std::string(name) + "'; known are " +
                   joined(attention_kinds(), &AttentionKind::name));
}

std::vector<std::string> own_settings(const AttentionKind& kind) {
  std::vector<std::string> names;
  if (kind.settings == nullptr) return names;
  AttentionConfig scratch;
  Settings settings;
  kind.settings(scratch, settings);
  for (const Setting& setting : settings.all()) names.push_back(setting.name);
  return names;
}

void resolve(AttentionConfig& config) {
  const AttentionKind& kind = attention_kind(config.kind);
  if (config.head_dim == kUnset) {
    require_setting(config.dim % config.heads == 0,
                    "`heads` " + std::to_string(config.heads) + " does not divide `dim` " +
                        std::to_string(config.dim) + "; choose another or give `head-dim`");
    config.head_dim = kind.head_dim_factor * (config.dim / config.heads);
  }
  kind.resolve(config);
}

void resolve_rotary_heads(AttentionConfig& config) {
  if (!config.rotary_layout) config.rotary_layout = RotaryLayout::half;
  require_setting(
      !config.rotary || config.head_dim % 2 == 0,
      "`positions` rope rotates pairs and needs an even head dimension, `head-dim` is " +
          std::to_string(config.head_dim));
}

void resolve_rotary_part(AttentionConfig& config, Index rope_dim) {
  if (!config.rotary_layout) config.rotary_layout = RotaryLayout::half;
  require_setting(rope_dim <= config.head_dim, "`rope-dim` " + std::to_string(rope_dim) +
                                                   " is more than a head's width, `head-dim` " +
                                                   std::to_string(config.head_dim));
  require_setting(!config.rotary || rope_dim % 2 == 0,
                  "`rope-dim` must be even, is " + std::to_string(rope_dim));
}

void resolve_kv_heads(const AttentionConfig& config, Index& kv_heads) {
  if (kv_heads == kUnset) {
    require_setting(config.heads % 2 == 0, "`attention` " + config.kind +
                                               " takes half of `heads` as key/value heads, but " +
                                               std::to_string(config.heads) +
                                               " is odd; give `kv-heads`");
    kv_heads = config.heads / 2;
  }
  require_setting(kv_heads > 0 && config.heads % kv_heads == 0,
                  "`kv-heads` " + std::to_string(kv_heads) + " does not divide `heads` " +
                      std::to_string(config.heads));
}

namespace {

template <class Body>
void for_forms(AttentionDescription& description, const Body& body) {
  for (AttentionForm& form : description.forms) body(form);
  for (AttentionForm& form : description.counted_forms) body(form);
}

// Leaves what a layer has that reads what another one kept.
void drop_what_keeps(AttentionDescription& description, const std::string& kind) {
  description.keeps.clear();
  for_forms(description, [&](AttentionForm& form) {
    const auto dropped = std::erase_if(form.projections, [](const auto& p) { return p.keeps; });
    require_setting(dropped > 0, "a layer of " + kind + " cannot share what another layer kept");
  });
}

}  // namespace

AttentionDescription describe(const AttentionConfig& config) {
  AttentionDescription description = attention_kind(config.kind).describe(config);
  if (config.shares) drop_what_keeps(description, config.kind);
  for_forms(description, [&](AttentionForm& form) {
    const Index width = form.heads_of_output(config.heads) * form.head_output();
    if (config.gate) form.projections.push_back({"gate_proj", config.dim, width});
    if (config.output_projection) form.projections.push_back({form.output, width, config.dim});
  });
  return description;
}

namespace {

AttentionCosts costs_of_form(const AttentionConfig& config, const AttentionForm& form,
                             std::span<const Kept> keeps) {
  AttentionCosts costs;
  costs.linear_macs_per_token = form.macs_per_token + form.macs_per_kept;
  costs.expansion_macs_per_key = form.macs_per_kept;
  for (const Projection& p : form.projections) {
    const Count macs = Count(p.in) * p.out;
    costs.linear_macs_per_token += macs;
    const bool biased = config.bias && p.form == Projection::Form::matrix;
    costs.parameters += (p.in == 0 ? Count(p.out) : macs) + (biased ? p.out : 0);
    if (p.of_kept) costs.expansion_macs_per_key += macs;
  }
  costs.state = form.state;
  if (!form.state)
    costs.macs_per_pair = Count(config.heads) * (Count(form.key_width) + form.value_width);
  for (const Kept& kept : keeps) {
    const Count elements = Count(kept.heads) * kept.width;
    if (kept.per_sequence) {
      costs.state_elements += elements;
      continue;
    }
    costs.cache_elements_per_token += elements;
    costs.cache_rows_per_token += kept.heads;
  }
  return costs;
}

}  // namespace

std::vector<AttentionCosts> attention_costs(const AttentionConfig& config) {
  return attention_costs(config, describe(config));
}

std::vector<AttentionCosts> attention_costs(const AttentionConfig& config,
                                            const AttentionDescription& description) {
  std::vector<AttentionCosts> all;
  const auto add = [&](const AttentionForm& form, bool computed) {
    AttentionCosts& costs = all.emplace_back(costs_of_form(config, form, description.keeps));
    costs.name = config.kind + (all.size() == 1 ? "" : "-" + form.name);
    costs.computed = computed;
  };
  for (const AttentionForm& form : description.forms) add(form, true);
  for (const AttentionForm& form : description.counted_forms) add(form, false);
  return all;
}

Count AttentionCosts::prefill_macs(Count context, Count held) const {
  if (!state) return macs_per_pair * context * held;
  const Index whole = context.value() / state->chunk, rest = context.value() % state->chunk;
  const Count pairs = Count(whole) * state->chunk * state->chunk + Count(rest) * rest;
  return state->per_token * context + state->per_pair * pairs;
}

Count AttentionCosts::decode_macs(Count held) const {
  return state ? state->per_token : macs_per_pair * held;
}

KeptNumbers kept_numbers(const AttentionConfig& config, Index context) {
  const AttentionCosts costs = attention_costs(config).front();
  const Count held = config.cached_tokens(context);
  return {costs.cache_elements_per_token * held, costs.cache_rows_per_token * held,
          costs.state_elements};
}

}  // namespace headcount
