#include "models/config_cache.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/configuration.h"
#include "models/cost.h"

namespace headcount {

namespace {

using Json = nlohmann::json;

constexpr CacheType kUnrounded = CacheType::bf16;  // rows as other people's programs compute them

// Windows that a configuration names but its type does not use are none.
Index window_of(const Configuration& c, const std::string& key) {
  if (c.knows("use_sliding_window") && !c.on("use_sliding_window")) return 0;
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
  layer.rows.push_back(
      {.name = "keys and values",
       .parts = {{"k", heads.kv_heads, heads.width}, {"v", heads.kv_heads, heads.width}},
       .window = window});
  layer.kv_heads = heads.kv_heads;
}

void add_index_keys(CachedLayer& layer, Index width, Index block) {
  layer.rows.push_back(
      {.name = "index keys",
       .parts = {{.name = "index_key", .heads = 1, .width = width, .block = block > 1 ? block : 0}},
       .block = block});
}

// Multi-head latent attention, and the keys of its indexer if the layer has one of its own.
void add_latent(CachedLayer& layer, const Configuration& c, Index i, Index window, bool indexed) {
  const Index rope = c.whole("qk_rope_head_dim"), rank = c.positive("kv_lora_rank");
  const Index heads = c.positive("num_attention_heads");
  layer.rows.push_back({.name = "latents",
                        .parts = {{"latent", 1, rank}, {"rope_key", 1, rope}},
                        .window = window,
                        .expanded = {{"k", heads, c.positive("qk_nope_head_dim") + rope},
                                     {"v", heads, c.positive("v_head_dim")}}});
  if (!indexed) return;
  bool own = true;
  if (const Json* const indexers = c.list("indexer_types");
      indexers != nullptr && i < std::ssize(*indexers))
    own = (*indexers)[static_cast<std::size_t>(i)] == "full";
  if (own) add_index_keys(layer, c.positive("index_head_dim"), 1);
}

// DeepSeek-V4: rows of a window, rows pooled from blocks, and keys of an indexer for the latter.
void add_compressed(CachedLayer& layer, const Configuration& c, const std::string& kind) {
  const Index width = c.positive("head_dim");
  layer.rows.push_back(
      {.name = "rows", .parts = {{"kv", 1, width}}, .window = window_of(c, "sliding_window")});
  if (kind == "sliding_attention") return;
  const bool sparse = kind == "compressed_sparse_attention";
  Index block = sparse ? 4 : 128;
  if (c.find("compress_rates") != nullptr) block = c.nested("compress_rates").positive(kind, block);
  layer.rows.push_back({.name = "pooled rows",
                        .parts = {{.name = "pooled", .heads = 1, .width = width, .block = block}},
                        .block = block});
  if (sparse) add_index_keys(layer, c.positive("index_head_dim"), block);
}

void add_mamba(CachedLayer& layer, const Configuration& c) {
  Index inner = c.positive("expand", 2) * c.positive("hidden_size");
  const Index states = c.positive("state_size");
  layer.taps = c.positive("conv_kernel");
  if (c.rule("state") == "mamba") {
    if (c.rule("every") == "mamba") inner = c.positive("intermediate_size", inner);
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
  // As OLMo Hybrid has them; the other types have defaults.
  const Index usual = 3 * c.positive("hidden_size") / (4 * key_heads);
  const Index key = c.positive("linear_key_head_dim", usual);
  const Index value = c.positive("linear_value_head_dim", 2 * key);
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
    const std::string all = latent ? "latent" : "full attention";
    layer.kind = window == 0 ? all
                 : chunks    ? "chunks of " + std::to_string(window)
                             : (latent ? "latent, " : "") + window_text(window);
    latent ? add_latent(layer, c, i, window, false) : add_heads(layer, heads_of(c), window);
  } else if (latent) {
    layer.kind = "latent";
    add_latent(layer, c, i, 0, kind == "deepseek_sparse_attention");
  } else if (kind == "full_attention" || kind == "attention" || kind == "minimax_m3_sparse") {
    layer.kind = "full attention";
    add_heads(layer, full_heads_of(c), 0);
    if (kind == "minimax_m3_sparse") add_index_keys(layer, c.positive("index_head_dim", 128), 1);
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

Count CachedRows::numbers(bool as_expanded) const {
  Count all;
  for (const Kept& kept : as_expanded ? expanded : parts) all += Count(kept.heads) * kept.width;
  return all;
}

double CachedRows::bytes(Count rows, const CacheRounding& rounding, bool as_expanded) const {
  double all = 0;
  for (const Kept& kept : as_expanded ? expanded : parts) {
    const CacheFormat format = rounding.of(kept);
    const Count recent = std::min<std::int64_t>(rows.value(), format.recent);
    const double packed = static_cast<double>(rows.value() - recent.value());
    all += static_cast<double>(kept.heads) *
           (packed * static_cast<double>(row_bytes(format, kept.width)) +
            static_cast<double>((recent * row_bytes(kUnrounded, kept.width)).value()));
  }
  return all;
}

double CachedLayer::per_token(bool expanded) const {
  double all = 0;
  for (const CachedRows& kept : rows)
    all += static_cast<double>(kept.numbers(expanded).value()) / static_cast<double>(kept.block);
  return all;
}

void CachedLayer::set_kv_heads(Index heads) {
  if (kv_heads == 0) return;
  CachedRows& kept = rows.front();
  for (Kept& part : kept.parts) part.heads = heads;
  kept.expanded = kept.parts;
  kv_heads = heads;
}

double ConfigCache::per_token(bool expanded) const {
  double all = 0;
  for (const CachedLayer& layer : layers) all += layer.per_token(expanded);
  return all;
}

Index ConfigCache::kv_heads() const {
  Index most = 0;
  for (const CachedLayer& layer : layers) most = std::max(most, layer.kv_heads);
  return most;
}

namespace {

std::int64_t share(std::int64_t count, std::int64_t parts) { return (count + parts - 1) / parts; }

}  // namespace

ConfigCache ConfigCache::with_kv_heads(Index most) const {
  ConfigCache changed = *this;
  for (CachedLayer& layer : changed.layers)
    layer.set_kv_heads(static_cast<Index>(
        share(layer.kv_heads * std::int64_t{most}, std::max<Index>(1, kv_heads()))));
  return changed;
}

ConfigCache ConfigCache::of_shard(Index shards) const {
  ConfigCache one = *this;
  for (CachedLayer& layer : one.layers) {
    layer.state = Count(share(layer.state.value(), shards));
    layer.channels = Count(share(layer.channels.value(), shards));
    layer.set_kv_heads(static_cast<Index>(share(layer.kv_heads, shards)));
  }
  return one;
}

CacheNumbersOf ConfigCache::numbers(Index context_length, bool expanded) const {
  CacheNumbersOf all;
  for (const CachedLayer& layer : layers) {
    for (const CachedRows& rows : layer.rows) {
      (rows.window > 0 ? all.windowed : all.growing) +=
          rows.count(context_length) * rows.numbers(expanded);
    }
    all.once += layer.state + layer.convolutions();
  }
  return all;
}

CacheBytesOf ConfigCache::bytes(Index context_length, const CacheRounding& rounding,
                                bool expanded) const {
  CacheBytesOf all;
  for (const CachedLayer& layer : layers) {
    for (const CachedRows& rows : layer.rows)
      (rows.window > 0 ? all.windowed : all.growing) +=
          rows.bytes(rows.count(context_length), rounding, expanded);
    all.once += static_cast<double>(((layer.state + layer.convolutions()) * kStateBytes).value());
  }
  return all;
}

double ConfigCache::bytes_per_token(const CacheRounding& rounding, bool expanded) const {
  CacheRounding without_recent = rounding;
  without_recent.all.recent = 0;
  double all = 0;
  for (const CachedLayer& layer : layers) {
    for (const CachedRows& rows : layer.rows)
      all += rows.bytes(1, without_recent, expanded) / static_cast<double>(rows.block);
  }
  return all;
}

void ConfigCache::require_fit(const CacheRounding& rounding) const {
  std::vector<Kept> keeps;
  for (const CachedLayer& layer : layers) {
    for (const CachedRows& rows : layer.rows)
      keeps.insert(keeps.end(), rows.parts.begin(), rows.parts.end());
  }
  rounding.require_parts(keeps);
  for (const Kept& kept : keeps) row_bytes(rounding.of(kept), kept.width);
}

bool ConfigCache::has_latents() const {
  return std::ranges::any_of(layers, [](const CachedLayer& layer) {
    return std::ranges::any_of(
        layer.rows, [](const CachedRows& rows) { return !(rows.numbers(true) == rows.numbers()); });
  });
}

namespace {

ConfigCache read_sizes(const Json& config, const std::string& as) {
  if (!config.is_object()) throw DataError("the configuration is not a JSON object");
  const Json& text = text_of(config);
  ConfigCache cache;
  cache.type = type_of(config, text, as);
  const Configuration c(text, cache.type);
  const std::vector<std::string> kinds = layer_kinds(c);
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

// Whether every count fits 64 bits, at up to 2^31 tokens of some bytes.
bool is_countable(const ConfigCache& cache) {
  constexpr double kMostOfToken = 1 << 29, kMostOnce = 0x1p50;
  return cache.per_token(true) <= kMostOfToken &&
         static_cast<double>(cache.numbers(1).once.value()) <= kMostOnce;
}

}  // namespace

ConfigCache read_config_cache(const Json& config, const std::string& as) {
  try {
    ConfigCache cache = read_sizes(config, as);
    if (is_countable(cache)) return cache;
  } catch (const ShapeError&) {  // a product of sizes overflows
  }
  throw DataError(
      "the cache of one token is larger than any model's; check 'num_hidden_layers', "
      "'num_key_value_heads', 'head_dim' and the sizes of states");
}

}  // namespace headcount
