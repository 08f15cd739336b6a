#include "models/config.h"

#include <algorithm>

namespace headcount {

Settings ModelConfig::settings() {
  Settings s;
  std::vector<std::pair<std::string, std::string>> kinds;
  for (const AttentionKind* kind : attention_kinds()) {
    kinds.emplace_back(std::string(kind->name), std::string(kind->name));
  }
  s.group("Attention");
  s.choice("attention", "which attention", attention.kind, std::move(kinds));
  s.integer("heads", "query heads", attention.heads, 1);
  s.integer("head-dim", "width of a head; default dim / heads", attention.head_dim, 1);
  s.integer("kv-heads", "gqa: key/value heads; default heads / 2", attention.kv_heads, 1);
  s.integer("kv-rank", "mla: width of the latent; default 2 head-dim - rope-dim", attention.kv_rank,
            1);
  s.integer("q-rank", "mla: width of the query latent; default 0, none", attention.q_rank, 0);
  s.integer("nope-dim", "mla: width of q and k without position; default head-dim",
            attention.nope_dim, 1);
  s.integer("rope-dim", "mla: width of q and k with position; default head-dim / 2",
            attention.rope_dim, 0);
  s.integer("v-dim", "mla: width of v; default head-dim", attention.v_dim, 1);
  s.on_off("latent-norm", "mla: RMSNorm on the latents", attention.latent_norm);
  s.integer("latent-dim", "latent-bias: width of z; default head-dim / 2", attention.latent_dim, 1);
  s.on_off("output-projection", "off: the heads' outputs side by side are the output",
           attention.output_projection);
  s.custom(
      "score-scale", "inv-sqrt, none, qk-norm, row-norm, length or a number",
      [this](std::string_view text) {
        try {
          attention.score_scale = ScoreScale::parse(text);
        } catch (const ShapeError& error) {
          throw SettingError("--score-scale: " + std::string(error.what()));
        }
      },
      [this] { return nlohmann::json(attention.score_scale.text()); });
  s.integer("window", "a token sees only this many, itself included; 0: all", attention.window, 0);
  s.choice<std::optional<RotaryLayout>>(
      "rope-layout", "which elements rotate together; default half, mla interleaved",
      attention.rotary_layout,
      {{"half", RotaryLayout::half}, {"interleaved", RotaryLayout::interleaved}});
  s.number("rope-theta", "base of the rotary wavelengths", attention.rope_theta, 1);
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
  const Index v_dim = attention.kind == "mla" ? attention.v_dim : attention.head_dim;
  require_setting(attention.output_projection || attention.heads * v_dim == dim,
                  "--output-projection off needs heads that fill --dim " + std::to_string(dim) +
                      ", " + std::to_string(attention.heads) + " heads of " +
                      std::to_string(v_dim) + " do not");
}

nlohmann::ordered_json to_json(const ModelConfig& config) {
  ModelConfig copy = config;
  nlohmann::ordered_json values = copy.settings().values();
  const AttentionKind& own = attention_kind(config.attention.kind);
  for (const AttentionKind* kind : attention_kinds()) {
    for (const std::string_view name : kind->settings) {
      if (std::ranges::find(own.settings, name) == own.settings.end())
        values.erase(std::string(name));
    }
  }
  return values;
}

}  // namespace headcount
