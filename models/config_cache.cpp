#include "models/config_cache.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/configuration.h"
#include "models/model_data.h"

namespace headcount {

namespace {

using Json = nlohmann::json;

bool contains(const Json& list, Index number) {
  return std::ranges::find(list, Json(number)) != list.end();
}

bool contains_at(const Json& list, Index i, Index number) {
  return list[static_cast<std::size_t>(i)] == number;
}

// Kinds of layers that a pattern of letters stands for, as in nemotron_h.
std::vector<std::string> kinds_of_letters(const std::string& pattern) {
  static const std::map<char, const char*> kKinds = {
      {'M', "mamba"}, {'*', "full_attention"}, {'-', "mlp"}, {'E', "moe"}};
  std::vector<std::string> kinds;
  for (const char letter : pattern) {
    const auto found = kKinds.find(letter);
    if (found == kKinds.end())
      throw DataError("'hybrid_override_pattern' has the letter '", letter, "'; known are M * - E");
    kinds.emplace_back(found->second);
  }
  return kinds;
}

Index layer_count(const Configuration& c) {
  const std::string pairs = c.rule("layer_pairs");  // key of the number of pairs of layers
  const Index layers = pairs.empty() ? c.positive("num_hidden_layers") : 2 * c.positive(pairs);
  constexpr Index kMostLayers = 100'000;
  if (layers > kMostLayers)
    throw DataError("'num_hidden_layers' ", layers, " is more than ", kMostLayers);
  return layers;
}

// Kinds that the configuration lists, one a layer; none if it lists none.
std::optional<std::vector<std::string>> listed_kinds(const Configuration& c) {
  if (const Json* const pattern = c.find("hybrid_override_pattern");
      pattern != nullptr && pattern->is_string())
    return kinds_of_letters(pattern->get<std::string>());
  for (const char* key : {"layer_types", "layers_block_type"}) {
    const Json* const list = c.list(key);
    if (list == nullptr) continue;
    std::vector<std::string> kinds;
    for (const Json& kind : *list) {
      if (!kind.is_string()) refuse(key, kind, "it must be a list of texts");
      kinds.push_back(kind.get<std::string>());
    }
    const Json* const layers = c.find("num_hidden_layers");
    if (layers != nullptr && layer_count(c) != std::ssize(kinds))
      throw DataError("'", key, "' has ", kinds.size(), " entries for 'num_hidden_layers' ",
                      layer_count(c));
    return kinds;
  }
  return {};
}

// Kinds of the layers where the configuration does not list them.
std::vector<std::string> derived_kinds(const Configuration& c) {
  const Index layers = layer_count(c);
  const std::string other = c.rule("other"), every = c.rule("every");
  Index period = c.number_rule("full_every", 0);
  if (const std::string key = c.rule("full_every_key"); !key.empty()) {
    const Json* const given = c.find(key);
    if (given != nullptr && given->is_string()) {  // "LLLG"
      period = std::ssize(given->get_ref<const std::string&>());
    } else {
      period = c.whole(key, period);
    }
  }
  const Index full_at = c.whole("attn_layer_offset", c.number_rule("full_at", period - 1));
  const Json* full_layers = nullptr;
  for (const char* key : {"attn_layer_indices", "full_attn_idxs"}) {
    if (full_layers == nullptr) full_layers = c.list(key);
  }
  const Json* const hybrid_layers = c.list("hybrid_layer_ids");
  const Json* const ratios = c.list("compress_ratios");
  const Json* const rotating = c.list("no_rope_layers");  // 0: a layer without RoPE
  std::vector<std::string> kinds;
  for (Index i = 0; i < layers; ++i) {
    std::string kind = every.empty() ? "full_attention" : every;
    if (other == "chunked_attention" && rotating != nullptr && i < std::ssize(*rotating)) {
      kind = contains_at(*rotating, i, 0) ? "full_attention" : other;
    } else if (period > 0) {
      kind = i % period == full_at ? "full_attention" : other;
    } else if (hybrid_layers != nullptr) {
      kind = contains(*hybrid_layers, i) ? "hybrid" : other;
    } else if (full_layers != nullptr) {
      kind = contains(*full_layers, i) ? "full_attention" : other;
    } else if (other == "mamba") {
      kind = other;
    } else if (c.find("max_window_layers") != nullptr) {
      kind = i >= c.whole("max_window_layers") ? "sliding_attention" : "full_attention";
    } else if (ratios != nullptr && i < std::ssize(*ratios)) {
      const Json& ratio = (*ratios)[static_cast<std::size_t>(i)];
      kind = ratio == 0   ? "sliding_attention"
             : ratio == 4 ? "compressed_sparse_attention"
                          : "heavily_compressed_attention";
    } else if (c.rule("rows") == "v4") {
      kind = i >= 2 && i % 2 == 1 ? "compressed_sparse_attention" : "heavily_compressed_attention";
    }
    kinds.push_back(std::move(kind));
  }
  if (c.rule("last") == "full") kinds.back() = "full_attention";
  return kinds;
}

// Windows that a configuration names but its type does not use are none.
Index window_of(const Configuration& c, const std::string& key) {
  const Json* const used = c.find("use_sliding_window");
  if (used != nullptr && !c.on("use_sliding_window")) return 0;
  return c.whole(key, 0);
}

// Sizes of keys and values of ordinary heads.
struct Heads {
  Index kv_heads, width;
};
Heads heads_of(const Configuration& c) {
  const Index heads = c.positive("num_attention_heads");
  const bool given = c.rule("head_dim").empty() && c.find("head_dim") != nullptr;
  const Index width = given ? c.positive("head_dim")
                            : c.number_rule("width_factor", 1) * c.positive("hidden_size") / heads;
  Index kv_heads = heads;
  const std::string rule = c.rule("kv_heads");
  if (rule == "multi_query") {
    kv_heads = c.on("multi_query") ? 1 : heads;
  } else if (rule == "falcon") {
    kv_heads = c.on("new_decoder_architecture") ? c.positive("num_kv_heads", heads)
               : c.on("multi_query")            ? 1
                                                : heads;
  } else if (rule == "attn_config") {
    if (c.find(rule) != nullptr) kv_heads = c.nested(rule).positive("kv_n_heads", heads);
  } else if (rule != "all") {
    kv_heads = c.positive("num_key_value_heads", heads);
  }
  if (kv_heads > heads || heads % kv_heads != 0)
    throw DataError("'num_key_value_heads' ", kv_heads, " does not divide 'num_attention_heads' ",
                    heads);
  return {kv_heads, width};
}

std::string window_text(Index window) { return "window of " + std::to_string(window); }

void add_heads(CachedLayer& layer, const Heads& heads, Index window) {
  layer.rows.push_back({.numbers = Count(2) * heads.kv_heads * heads.width,
                        .window = window,
                        .vectors = 2 * heads.kv_heads});
  layer.kv_heads = heads.kv_heads;
}

// Multi-head latent attention, and the keys of its indexer if the layer has one of its own.
void add_latent(CachedLayer& layer, const Configuration& c, Index i, bool indexed) {
  const Index rope = c.whole("qk_rope_head_dim"), rank = c.positive("kv_lora_rank");
  const Count expanded = Count(c.positive("num_attention_heads")) *
                         (Count(c.positive("qk_nope_head_dim")) + rope + c.positive("v_head_dim"));
  layer.rows.push_back({.numbers = Count(rank) + rope, .vectors = 2, .expanded = expanded});
  if (!indexed) return;
  bool own = true;
  if (const Json* const indexers = c.list("indexer_types");
      indexers != nullptr && i < std::ssize(*indexers))
    own = (*indexers)[static_cast<std::size_t>(i)] == "full";
  if (own) layer.rows.push_back({.numbers = c.positive("index_head_dim")});
}

// DeepSeek-V4: rows of a window, rows pooled from blocks, and keys of an indexer for the latter.
void add_compressed(CachedLayer& layer, const Configuration& c, const std::string& kind) {
  const Index width = c.positive("head_dim");
  layer.rows.push_back({.numbers = width, .window = window_of(c, "sliding_window")});
  if (kind == "sliding_attention") return;
  const bool sparse = kind == "compressed_sparse_attention";
  Index block = sparse ? 4 : 128;
  if (c.find("compress_rates") != nullptr) block = c.nested("compress_rates").positive(kind, block);
  layer.rows.push_back({.numbers = width, .block = block});
  if (sparse) layer.rows.push_back({.numbers = c.positive("index_head_dim"), .block = block});
}

void add_mamba(CachedLayer& layer, const Configuration& c) {
  const Index inner = c.positive("expand", 2) * c.positive("hidden_size");
  const Index states = c.positive("state_size");
  layer.taps = c.positive("conv_kernel");
  if (c.rule("state") == "mamba") {
    layer.state += Count(inner) * states;
    layer.channels += inner;
    return;
  }
  const Index heads = c.positive("ssm_heads");
  const std::string key = c.rule("every") == "mamba" ? "head_dim" : "ssm_head_dim";
  const Json* const given = c.find(key);  // or "auto"
  const Index of_heads = c.positive("mamba_d_ssm", inner);
  const Index width = given != nullptr && given->is_number() ? c.positive(key) : of_heads / heads;
  layer.state += Count(heads) * width * states;
  layer.channels += Count(heads) * width + Count(2) * c.positive("ssm_groups") * states;
}

// Gated delta rule, of Qwen3-Next and others, of Kimi Linear, and lightning attention.
void add_linear_attention(CachedLayer& layer, const Configuration& c) {
  if (c.rule("state") == "lightning") {
    const Heads heads = heads_of(c);
    layer.state += Count(c.positive("num_attention_heads")) * heads.width * heads.width;
    return;
  }
  if (c.rule("state") == "kda") {
    const Configuration own = c.nested("linear_attn_config");
    const Index heads = own.positive("num_heads"), width = own.positive("head_dim");
    layer.state += Count(heads) * width * width;
    layer.channels += Count(3) * heads * width;
    layer.taps = own.positive("short_conv_kernel_size");
    return;
  }
  const Index attention_heads = c.positive("num_attention_heads");
  const Index key_heads = c.positive("linear_num_key_heads", attention_heads);
  const Index value_heads = c.positive("linear_num_value_heads", attention_heads);
  const Index key = c.positive("linear_key_head_dim");
  const Index value = c.positive("linear_value_head_dim");
  layer.state += Count(value_heads) * key * value;
  layer.channels += Count(2) * key_heads * key + Count(value_heads) * value;
  layer.taps = c.positive("conv_kernel");
}

// Heads of a full layer of Gemma 4, which may differ from those of its windows.
Heads full_heads_of(const Configuration& c) {
  Heads heads = heads_of(c);
  if (c.find("global_head_dim") == nullptr) return heads;
  heads.width = c.positive("global_head_dim");
  if (c.on("attention_k_eq_v"))
    heads.kv_heads = c.positive("num_global_key_value_heads", heads.kv_heads);
  return heads;
}

CachedLayer layer_of(const Configuration& c, const std::string& kind, Index i) {
  CachedLayer layer;
  const bool latent = c.rule("rows") == "latent", v4 = c.rule("rows") == "v4";
  if (v4) {
    layer.kind = kind == "sliding_attention" ? window_text(window_of(c, "sliding_window"))
                                             : "pooled rows beside a window";
    add_compressed(layer, c, kind);
  } else if (kind == "linear_attention") {
    layer.kind = "state";
    add_linear_attention(layer, c);
  } else if (kind == "mamba" || kind == "hybrid") {
    layer.kind = kind == "mamba" ? "state" : "state beside full attention";
    add_mamba(layer, c);
    if (kind == "hybrid") add_heads(layer, heads_of(c), 0);
  } else if (kind == "conv") {
    layer.kind = "convolution";
    layer.channels = c.positive("hidden_size");
    layer.taps = c.positive("conv_kernel");
  } else if (kind == "mlp" || kind == "moe") {
    layer.kind = "nothing";
  } else if (kind == "sliding_attention" || kind == "chunked_attention") {
    const bool chunks = kind == "chunked_attention";
    const Index window = window_of(c, chunks ? "attention_chunk_size" : "sliding_window");
    layer.kind = window == 0
                     ? "full attention"
                     : (chunks ? "chunks of " + std::to_string(window) : window_text(window));
    add_heads(layer, heads_of(c), window);
  } else if (latent) {
    layer.kind = "latent";
    add_latent(layer, c, i, kind == "deepseek_sparse_attention");
  } else if (kind == "full_attention" || kind == "attention" || kind == "minimax_m3_sparse") {
    layer.kind = "full attention";
    add_heads(layer, full_heads_of(c), 0);
    if (kind == "minimax_m3_sparse")
      layer.rows.push_back({.numbers = c.positive("index_head_dim", 128)});
  } else {
    throw DataError("the configuration has a layer of the unknown kind '", kind, "'");
  }
  return layer;
}

// Layers at the end that read what the nearest earlier layer of their kind kept.
void share_last_layers(std::vector<CachedLayer>& layers, Index shared) {
  if (shared >= std::ssize(layers))
    throw DataError("'num_kv_shared_layers' ", shared, " is not less than the count of layers, ",
                    layers.size());
  CachedLayer of_sharing;
  of_sharing.kind = "nothing: they share an earlier layer's rows";
  for (Index i = std::ssize(layers) - shared; i < std::ssize(layers); ++i)
    layers[static_cast<std::size_t>(i)] = of_sharing;
}

// The configuration of the text, which a multimodal one holds inside.
const Json& text_of(const Json& config) {
  for (const char* key : {"text_config", "language_config", "llm_config", "thinker_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object()) return text_of(*found);
  }
  return config;
}

std::string type_of(const Json& config, const Json& text, const std::string& as) {
  const auto named = [](const Json& object) {
    const auto found = object.find("model_type");
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  std::string type = !as.empty() ? as : named(text);
  if (type.empty() && &config != &text) type = named(config) + "_text";
  for (const std::string& name : {type, type + "_text"}) {
    if (std::ranges::binary_search(known_model_types(), name)) return name;
  }
  if (type.empty())
    throw DataError("the configuration has no 'model_type'; name the type whose rules apply");
  throw DataError("the model type '", type, "' is unknown", suggestion(type, known_model_types()));
}

}  // namespace

Count CachedRows::count(Index context) const {
  const Index held = window > 0 ? std::min(window, context) : context;
  return held / block;
}

double CachedLayer::per_token() const {
  double all = 0;
  for (const CachedRows& kept : rows)
    all += static_cast<double>(kept.numbers.value()) / static_cast<double>(kept.block);
  return all;
}

double ConfigCache::per_token() const {
  double all = 0;
  for (const CachedLayer& layer : layers) all += layer.per_token();
  return all;
}

CacheNumbersOf ConfigCache::numbers(Index context_length, bool expanded) const {
  CacheNumbersOf all;
  for (const CachedLayer& layer : layers) {
    for (const CachedRows& rows : layer.rows) {
      const bool windowed = rows.window > 0;
      const Count count = rows.count(context_length);
      (windowed ? all.windowed : all.growing) += count * (expanded ? rows.expanded : rows.numbers);
      (windowed ? all.windowed_vectors : all.growing_vectors) += count * rows.vectors;
    }
    all.once += layer.state + layer.convolutions();
  }
  return all;
}

bool ConfigCache::has_latents() const {
  return std::ranges::any_of(layers, [](const CachedLayer& layer) {
    return std::ranges::any_of(
        layer.rows, [](const CachedRows& rows) { return !(rows.expanded == rows.numbers); });
  });
}

ConfigCache read_config_cache(const Json& config, const std::string& as) {
  if (!config.is_object()) throw DataError("the configuration is not a JSON object");
  const Json& text = text_of(config);
  ConfigCache cache;
  cache.type = type_of(config, text, as);
  const Configuration c(text, cache.type);
  std::vector<std::string> kinds = listed_kinds(c).value_or(std::vector<std::string>());
  if (kinds.empty()) kinds = derived_kinds(c);
  for (Index i = 0; i < std::ssize(kinds); ++i)
    cache.layers.push_back(layer_of(c, kinds[static_cast<std::size_t>(i)], i));
  if (const Index shared = c.whole("num_kv_shared_layers", 0); shared > 0)
    share_last_layers(cache.layers, shared);
  cache.width = c.whole("hidden_size", 0);
  cache.heads = c.whole("num_attention_heads", 0);
  cache.context = c.whole("max_position_embeddings", 0);
  if (cache.heads > 0)
    cache.head_dim = c.rule("rows") == "latent" ? c.positive("v_head_dim") : heads_of(c).width;
  return cache;
}

const std::vector<ReleasedModel>& released_models() {
  static const std::vector<ReleasedModel> all = [] {
    std::vector<ReleasedModel> models;
    for (const Json& model : Json::parse(kReleasedModels))
      models.push_back({model.at("name"), model.at("source"), model.at("config")});
    return models;
  }();
  return all;
}

const ReleasedModel& released_model(const std::string& name) {
  std::vector<std::string> names;
  for (const ReleasedModel& model : released_models()) {
    if (model.name == name) return model;
    names.push_back(model.name);
  }
  throw DataError("no released model is called '", name, "'", suggestion(name, names));
}

}  // namespace headcount
