#include "models/config_cache.h"

#include <algorithm>

#include "models/configuration.h"

namespace headcount {

namespace {

using Json = nlohmann::json;

constexpr const char* kIndexKey = "index_key";
constexpr const char* kState = "state";
constexpr const char* kConvolutions = "convolutions";

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
  if (rule == "multi_query" && c.on("new_decoder_architecture")) {
    kv_heads = c.positive("num_kv_heads", heads);
  } else if (rule == "multi_query") {
    if (c.on("multi_query")) kv_heads = 1;
  } else if (rule == "attn_config") {
    if (c.find(rule) != nullptr) kv_heads = c.nested(rule).positive("kv_n_heads", heads);
  } else if (rule != "all") {
    kv_heads = c.positive("num_key_value_heads", heads);
  }
  if (kv_heads > heads || heads % kv_heads != 0)
    throw DataError("'num_key_value_heads' {} does not divide 'num_attention_heads' {}", kv_heads,
                    heads);
  return {kv_heads, width};
}

void add_heads(CachedLayer& layer, const Heads& heads) {
  layer.parts.insert(layer.parts.begin(),
                     {{"k", heads.kv_heads, heads.width}, {"v", heads.kv_heads, heads.width}});
}

// A row of one head for each block of tokens; 0: for each token.
void add_row(CachedLayer& layer, const char* name, Index width, Index block = 0) {
  layer.parts.push_back({.name = name, .heads = 1, .width = width, .block = block});
}

[[noreturn]] void refuse_size() {
  throw DataError(
      "the cache of one token is larger than any model's; check 'num_hidden_layers', "
      "'num_key_value_heads', 'head_dim' and the sizes of states");
}

// `rows` times as many numbers of each sequence: a state, or the last taps - 1 inputs of causal
// convolutions.
void add_once(CachedLayer& layer, const char* name, double numbers, Index rows = 1) {
  constexpr double kMost = 2'147'483'647;  // which an Index of 32 bits can be, too
  if (numbers > kMost) refuse_size();
  layer.parts.push_back(
      {.name = name, .heads = rows, .width = static_cast<Index>(numbers), .per_sequence = true});
}

// Multi-head latent attention, and the keys of its indexer if the layer has one of its own.
void add_latent(CachedLayer& layer, const Configuration& c, Index i, bool indexed) {
  const Index rope = c.whole("qk_rope_head_dim"), rank = c.positive("kv_lora_rank");
  const Index heads = c.positive("num_attention_heads");
  layer.parts = {{"latent", 1, rank}, {"rope_key", 1, rope}};
  layer.expanded_parts = {{"k", heads, c.positive("qk_nope_head_dim") + rope},
                          {"v", heads, c.positive("v_head_dim")}};
  const Json* const indexers = c.list("indexer_types");
  const bool listed = indexers != nullptr && i < std::ssize(*indexers);
  if (!indexed || (listed && (*indexers)[i] != "full")) return;
  add_row(layer, kIndexKey, c.positive("index_head_dim"));
  layer.expanded_parts.push_back(layer.parts.back());
}

// DeepSeek-V4: rows of a window, rows pooled from blocks, and keys of an indexer for the latter.
void add_compressed(CachedLayer& layer, const Configuration& c, const std::string& kind) {
  const Index width = c.positive("head_dim");
  add_row(layer, "kv", width);
  if (kind == "sliding_attention") return;
  const bool sparse = kind == "compressed_sparse_attention";
  Index block = sparse ? 4 : 128;
  if (c.find("compress_rates") != nullptr) block = c.nested("compress_rates").positive(kind, block);
  add_row(layer, "pooled", width, block);
  if (sparse) add_row(layer, kIndexKey, c.positive("index_head_dim"), block);
}

void add_mamba(CachedLayer& layer, const Configuration& c) {
  Index inner = c.positive("expand", 2) * c.positive("hidden_size");
  const Index states = c.positive("state_size"), taps = c.positive("conv_kernel");
  const bool all = c.rule("every") == "mamba";
  if (c.rule("state") == "mamba") {
    if (all) inner = c.positive("intermediate_size", inner);
    add_once(layer, kState, 1.0 * inner * states);
    add_once(layer, kConvolutions, 1.0 * inner, taps - 1);
    return;
  }
  const Index heads = c.positive("ssm_heads");
  const std::string key = all ? "head_dim" : "ssm_head_dim";
  const Json* const given = c.find(key);  // or "auto"
  const Index of_heads = c.positive("mamba_d_ssm", inner);
  const Index width = given != nullptr && given->is_number() ? c.positive(key) : of_heads / heads;
  add_once(layer, kState, 1.0 * heads * width * states);
  add_once(layer, kConvolutions, 1.0 * heads * width + 2.0 * c.positive("ssm_groups") * states,
           taps - 1);
}

// Gated delta rule, of Qwen3-Next and others, of Kimi Linear, and lightning attention.
void add_linear_attention(CachedLayer& layer, const Configuration& c) {
  if (c.rule("state") == "lightning") {
    const Heads heads = heads_of(c);
    add_once(layer, kState, 1.0 * c.positive("num_attention_heads") * heads.width * heads.width);
    return;
  }
  if (c.rule("state") == "kda") {
    const Configuration own = c.nested("linear_attn_config");
    const Index heads = own.positive("num_heads"), width = own.positive("head_dim");
    add_once(layer, kState, 1.0 * heads * width * width);
    add_once(layer, kConvolutions, 3.0 * heads * width, own.positive("short_conv_kernel_size") - 1);
    return;
  }
  const Index attention_heads = c.positive("num_attention_heads");
  const Index key_heads = c.positive("linear_num_key_heads", attention_heads);
  const Index value_heads = c.positive("linear_num_value_heads", attention_heads);
  // As OLMo Hybrid has them; the other types have defaults.
  const Index usual = 3 * c.positive("hidden_size") / (4 * key_heads);
  const Index key = c.positive("linear_key_head_dim", usual);
  const Index value = c.positive("linear_value_head_dim", 2 * key);
  add_once(layer, kState, 1.0 * value_heads * key * value);
  add_once(layer, kConvolutions, 2.0 * key_heads * key + 1.0 * value_heads * value,
           c.positive("conv_kernel") - 1);
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
  const bool chunks = kind == "chunked_attention", local = chunks || kind == "sliding_attention";
  if (local || v4) layer.window = window_of(c, chunks ? "attention_chunk_size" : "sliding_window");
  const std::string window =
      layer.window == 0 ? ""
                        : (chunks ? "chunks of " : "window of ") + std::to_string(layer.window);
  const bool known = kind == "full_attention" || kind == "attention" || kind == "minimax_m3_sparse";
  if (v4) {
    layer.kind = local ? window : "pooled rows beside a window";
    add_compressed(layer, c, kind);
  } else if (kind == "linear_attention") {
    layer.kind = "state";
    add_linear_attention(layer, c);
  } else if (kind == "mamba" || kind == "hybrid") {
    layer.kind = kind == "mamba" ? "state" : "state beside full attention";
    add_mamba(layer, c);
    if (kind == "hybrid") add_heads(layer, heads_of(c));
  } else if (kind == "conv") {
    layer.kind = "convolution";
    add_once(layer, kConvolutions, 1.0 * c.positive("hidden_size"), c.positive("conv_kernel") - 1);
  } else if (kind == "mlp" || kind == "moe") {
    layer.kind = "nothing";
  } else if (latent) {
    layer.kind = window.empty() ? "latent" : "latent, " + window;
    add_latent(layer, c, i, kind == "deepseek_sparse_attention");
  } else if (local || known) {
    layer.kind = window.empty() ? "full attention" : window;
    add_heads(layer, local ? heads_of(c) : full_heads_of(c));
    if (kind == "minimax_m3_sparse") add_row(layer, kIndexKey, c.positive("index_head_dim", 128));
  } else {
    throw DataError("the configuration has a layer of the unknown kind '{}'", kind);
  }
  return layer;
}

// Layers at the end that read what the nearest earlier layer of their kind kept.
void share_last_layers(std::vector<CachedLayer>& layers, Index shared) {
  if (shared >= std::ssize(layers))
    throw DataError("'num_kv_shared_layers' {} is not less than the count of layers, {}", shared,
                    layers.size());
  std::fill(layers.end() - shared, layers.end(),
            CachedLayer{.kind = "nothing: they share an earlier layer's rows"});
}

ModelCache read_sizes(const Json& config, const std::string& as) {
  if (!config.is_object()) throw DataError("the configuration is not a JSON object");
  const Configuration c = Configuration::of(config, as);
  ModelCache cache{.type = c.type(), .unrounded = CacheType::bf16};
  for (const std::string& kind : layer_kinds(c))
    cache.layers.push_back(layer_of(c, kind, std::ssize(cache.layers)));
  if (const Index shared = c.whole("num_kv_shared_layers", 0); shared > 0)
    share_last_layers(cache.layers, shared);
  cache.width = c.whole("hidden_size", 0);
  cache.heads = c.whole("num_attention_heads", 0);
  cache.context = c.whole("max_position_embeddings", 0);
  if (cache.heads > 0)
    cache.head_dim = c.rule("rows") == "latent" ? c.positive("v_head_dim") : heads_of(c).width;
  return cache;
}

// Returns true if every count fits 64 bits, at up to 2^31 tokens of some bytes.
bool is_countable(const ModelCache& cache) {
  constexpr double kMostOfToken = 1 << 29, kMostOnce = 0x1p50;
  double once = 0;
  for (const CachedLayer& layer : cache.layers) once += layer.once();
  return cache.per_token() <= kMostOfToken && once <= kMostOnce;
}

}  // namespace

ModelCache read_config_cache(const Json& config, const std::string& as) {
  ModelCache cache = read_sizes(config, as);
  if (!is_countable(cache) || !is_countable(cache.expanded())) refuse_size();
  return cache;
}

}  // namespace headcount
