#include "models/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace headcount {

Settings ModelConfig::settings() {
  Settings s;
  s.group("Attention");
  s.custom(
      "attention",
      "which, or with its size, or what layers take in turn: " +
          joined(attention_kinds(), &AttentionKind::name) + "; gqa2, mla48+16, mqa/share",
      [this](std::string_view text) {
        try {
          parse_attention_spec(text).apply(*this);
        } catch (const SettingError& error) {
          throw SettingError("`attention`: " + std::string(error.what()));
        }
      },
      [this] { return nlohmann::json(attention_text()); });
  const Settings of_attention = attention.settings();
  for (const Setting& setting : of_attention.all()) s.add(setting);
  s.group("Model");
  s.integer("layers", "blocks", layers, 1, 10000);
  s.integer("dim", "width", dim, 1, 1 << 20);
  s.token_count("context", "tokens of a sequence", context, 1, 1 << 24);
  s.integer("ffn-dim", "width of the feed-forward layer; default 4 dim, swiglu 8/3 dim", ffn_dim,
            1);
  s.choice("positions", "how the model knows the order", positions,
           {{"rope", Positions::rope}, {"learned", Positions::learned}, {"none", Positions::none}});
  s.choice("norm", "normalisation before each layer", norm,
           {{"rms", NormKind::rms}, {"layer", NormKind::layer}});
  s.number("norm-epsilon", "added to variances; default 1e-6, layer norm 1e-5", norm_epsilon, 0);
  s.choice("activation", "of the feed-forward layer", activation,
           {{"swiglu", Activation::swiglu}, {"gelu", Activation::gelu}});
  s.flag("tie-embeddings", "the head uses the embedding table", tie_embeddings);
  s.flag("bias", "biases in linear layers and LayerNorm", bias);
  s.number("dropout", "probability", dropout, 0, 1, true);
  return s;
}

namespace {

// Throws ShapeError unless the heads of a layer without output projection fill `dim`.
void check_output(const AttentionConfig& a) {
  const AttentionForm form = describe(a).forms.front();
  const Index heads = form.heads_of_output(a.heads), width = form.head_output();
  require_setting(a.output_projection || heads * width == a.dim,
                  "`output-projection` off needs heads that fill `dim` " + std::to_string(a.dim) +
                      ", " + std::to_string(heads) + " heads of " + std::to_string(width) +
                      " do not");
}

// The layers of one cycle, each with what `common` has.
std::vector<AttentionConfig> resolved_cycle(const std::vector<LayerSpec>& pattern,
                                            const AttentionConfig& common) {
  std::vector<AttentionConfig> cycle;
  for (const LayerSpec& part : pattern) {
    try {
      if (part.shares()) {
        cycle.push_back(cycle.back());
        cycle.back().shares = true;
      } else {
        cycle.push_back(common);
        // The window is for those layers of a pattern that have scores; so is the gate, as in
        // Qwen3-Next, whose states have one of their own.
        if (!part.kind->attends) {
          cycle.back().window = 0;
          cycle.back().gate = false;
        }
        part.apply(cycle.back());
        resolve(cycle.back());
      }
      check_output(cycle.back());
    } catch (const ShapeError& error) {
      throw ShapeError("`attention` " + text_of(pattern) + ": " + headcount::quoted(part.text) +
                       ": " + error.what());
    }
  }
  return cycle;
}

}  // namespace

void ModelConfig::resolve() {
  if (ffn_dim == kUnset) {
    ffn_dim = activation == Activation::gelu ? 4 * dim : (8 * dim / 3 + 7) / 8 * 8;
  }
  if (norm_epsilon < 0) norm_epsilon = norm == NormKind::rms ? 1e-6 : 1e-5;
  attention.dim = dim;
  attention.max_positions = context;
  attention.rotary = positions == Positions::rope;
  attention.bias = bias;
  attention.dropout = dropout;
  if (pattern.size() > 1) {
    require_setting(std::ssize(pattern) <= layers,
                    "`attention` " + attention_text() + " is for " +
                        std::to_string(pattern.size()) + " layers or more, `layers` is " +
                        std::to_string(layers) + ", which leaves parts of it out");
    cycle = resolved_cycle(pattern, attention);
    return;
  }
  if (!pattern.empty()) pattern.front().apply(attention);
  pattern.clear();
  headcount::resolve(attention);
  check_output(attention);
  cycle = {attention};
}

void ModelConfig::set_window(Index window) {
  attention.window = window;
  for (LayerSpec& part : pattern) part.drop_window();
}

std::string ModelConfig::attention_text() const {
  return pattern.size() > 1 ? text_of(pattern) : attention.kind;
}

bool ModelConfig::uses(const Setting& setting) const {
  if (!is_set(setting.value())) return false;
  if (pattern.size() <= 1) return setting.is_for(attention.kind);
  return std::ranges::any_of(pattern, [&](const LayerSpec& part) {
    return !part.shares() && setting.is_for(part.kind->name) && !part.gives(setting.name);
  });
}

Settings ModelConfig::settings() const {
  return const_cast<ModelConfig*>(this)->settings().read_only();  // nothing writes through it
}

nlohmann::ordered_json to_json(const ModelConfig& config) {
  nlohmann::ordered_json values;
  const Settings settings = config.settings();
  for (const Setting& setting : settings.all()) {
    if (config.uses(setting)) values[setting.name] = setting.value();
  }
  return values;
}

ModelConfig model_of_layer(const ModelConfig& config, Index layer) {
  ModelConfig model = config;
  model.attention = config.layer_attention(layer);
  model.pattern.clear();
  model.cycle = {model.attention};
  return model;
}

std::vector<std::string> settings_beyond(const ModelConfig& config,
                                         std::span<const std::string_view> listed) {
  const auto is_listed = [&](const std::string& name) {
    return std::ranges::find(listed, name) != listed.end();
  };
  const nlohmann::ordered_json all = to_json(config);
  nlohmann::json given = nlohmann::json::object(), rest = nlohmann::json::object();
  for (const auto& [name, value] : all.items()) (is_listed(name) ? given : rest)[name] = value;
  // What they are otherwise depends on the listed ones: `rope-dim` on `head-dim`.
  ModelConfig neutral;
  neutral.settings().read(given);
  nlohmann::json otherwise = nlohmann::json::object();
  try {
    neutral.resolve();
    otherwise = to_json(neutral);
  } catch (const ShapeError&) {  // then none of the rest can be left out
  }
  std::vector<std::string> beyond;
  for (const auto& [name, value] : rest.items()) {
    if (!otherwise.contains(name) || otherwise[name] != value) beyond.push_back(name);
  }
  return beyond;
}

}  // namespace headcount
