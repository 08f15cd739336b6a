#include "nn/attention/kind.h"

#include "autograd/error.h"

namespace headcount {

const AttentionKind& attention_kind(std::string_view name) {
  std::string known;
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->name == name) return *kind;
    known += (known.empty() ? "" : ", ") + std::string(kind->name);
  }
  throw ShapeError("unknown attention '" + std::string(name) + "'; known are " + known);
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
  if (config.head_dim == kUnset) {
    require_setting(config.dim % config.heads == 0,
                    "`heads` " + std::to_string(config.heads) + " does not divide `dim` " +
                        std::to_string(config.dim) + "; choose another or give `head-dim`");
    config.head_dim = config.dim / config.heads;
  }
  attention_kind(config.kind).resolve(config);
}

void resolve_rotary_heads(AttentionConfig& config) {
  if (!config.rotary_layout) config.rotary_layout = RotaryLayout::half;
  require_setting(!config.rotary || config.head_dim % 2 == 0,
                  "`positions` rope turns pairs and needs an even head dimension, `head-dim` is " +
                      std::to_string(config.head_dim));
}

namespace {

// Leaves what a layer has that reads what another one kept.
void drop_what_keeps(AttentionDescription& description, const std::string& kind) {
  description.keeps.clear();
  for (AttentionForm& form : description.forms) {
    const auto dropped = std::erase_if(form.projections, [](const auto& p) { return p.keeps; });
    require_setting(dropped > 0, "a layer of " + kind + " cannot share what another layer kept");
  }
}

}  // namespace

AttentionDescription describe(const AttentionConfig& config) {
  AttentionDescription description = attention_kind(config.kind).describe(config);
  if (config.shares) drop_what_keeps(description, config.kind);
  if (!config.output_projection) return description;
  for (AttentionForm& form : description.forms)
    form.projections.push_back({"o_proj", config.heads * form.value_width, config.dim});
  return description;
}

std::vector<AttentionCosts> attention_costs(const AttentionConfig& config) {
  const AttentionDescription description = describe(config);
  std::vector<AttentionCosts> all;
  for (const AttentionForm& form : description.forms) {
    AttentionCosts costs;
    costs.name = config.kind + (all.empty() ? "" : "-" + form.name);
    for (const Projection& p : form.projections) {
      const Count macs = Count(p.in) * p.out;
      costs.linear_macs_per_token += macs;
      costs.parameters += p.in == 0 ? Count(p.out) : macs + (config.bias ? p.out : 0);
      if (p.of_kept) costs.expansion_macs_per_key += macs;
    }
    costs.macs_per_pair = Count(config.heads) * (Count(form.key_width) + form.value_width);
    for (const Kept& kept : description.keeps) {
      costs.cache_elements_per_token += Count(kept.heads) * kept.width;
      costs.cache_rows_per_token += kept.heads;
    }
    all.push_back(costs);
  }
  return all;
}

KeptNumbers kept_numbers(const AttentionConfig& config, Index context) {
  KeptNumbers all;
  for (const Kept& kept : describe(config).keeps) {
    const Count rows = Count(kept.heads) * config.cached_tokens(context);
    all.elements += rows * kept.width;
    all.rows += rows;
  }
  return all;
}

}  // namespace headcount
