#include "models/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace headcount {

Settings ModelConfig::settings() {
  Settings s = attention.settings();
  s.group("Model");
  s.integer("layers", "blocks", layers, 1, 10000);
  s.integer("dim", "width", dim, 1, 1 << 20);
  s.integer("context", "tokens of a sequence", context, 1, 1 << 24);
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

void ModelConfig::resolve() {
  if (ffn_dim == kUnset) {
    ffn_dim = activation == Activation::gelu ? 4 * dim : (8 * dim / 3 + 7) / 8 * 8;
  }
  if (norm_epsilon < 0) norm_epsilon = norm == NormKind::rms ? 1e-6 : 1e-5;
  attention.dim = dim;
  attention.positions = context;
  attention.rotary = positions == Positions::rope;
  attention.bias = bias;
  attention.dropout = dropout;
  headcount::resolve(attention);
  const Index v_dim = describe(attention).forms.front().head_output();
  require_setting(attention.output_projection || attention.heads * v_dim == dim,
                  "`output-projection` off needs heads that fill `dim` " + std::to_string(dim) +
                      ", " + std::to_string(attention.heads) + " heads of " +
                      std::to_string(v_dim) + " do not");
}

Settings ModelConfig::settings() const {
  return const_cast<ModelConfig*>(this)->settings().read_only();  // nothing writes through it
}

nlohmann::ordered_json to_json(const ModelConfig& config) {
  nlohmann::ordered_json values;
  const Settings settings = config.settings();
  for (const Setting& setting : settings.all()) {
    if (setting.is_for(config.attention.kind)) values[setting.name] = setting.value();
  }
  return values;
}

}  // namespace headcount
