#include "models/cost/config_cache.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/cost/layer_kinds.h"
#include "nn/attention/costs.h"

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

// Ordinary heads, and sizes of their keys and values.
struct Heads {
  Index heads, kv_heads, keys, values;
};

// KV heads of so many heads, where `given` reads the number in the file.
template <class Given>
Index kv_heads_of(const Configuration& c, Index heads, const Given& given) {
  std::string rule = c.rule("kv_heads", "given");
  if (rule == "flags") {
    c.find(c.rule("kv_key", "num_key_value_heads"));  // which the flags may overrule
    const bool grouped = c.on("new_decoder_architecture");
    rule = grouped ? "given" : c.on("multi_query") ? c.rule("multi_query", "one") : "all";
  }
  if (const Json* const type = c.find("attention_head_type"); type != nullptr) {  // "multiquery"
    const Json& rules = model_type_table("attention_head_types");
    if (!type->is_string() || !rules.contains(*type))
      refuse(c.name_of("attention_head_type"), *type, "it must be one that is known");
    rule = rules.at(type->get<std::string>());
  }
  if (const Index group = c.whole("heads_in_group", 0); group > 0) return heads / group;
  return rule == "all" ? heads : rule == "one" ? 1 : given(heads);
}

// Width of keys, where `size` reads a size of those heads.
template <class Size>
Index width_of_keys(const Configuration& c, const Size& size) {
  if (c.rule("head_dim").empty() && c.find("head_dim") != nullptr) return size("head_dim");
  const Index heads = size("num_attention_heads");
  const Index width = c.number_rule("width_factor", 1) * c.positive("hidden_size");
  if (width % heads != 0)
    throw DataError("'{}' {} is not a multiple of '{}' {}", c.name_of("hidden_size"), width,
                    c.name_of("num_attention_heads"), heads);
  return width / heads;
}

Index width_of_keys(const Configuration& c) {
  return width_of_keys(c, [&](const std::string& key) { return c.positive(key); });
}

// Heads of layers with windows may have sizes of their own.
Heads heads_of(const Configuration& c, bool windowed = false) {
  const bool own = windowed && c.rule("windows") == "own";
  const auto size = [&](const std::string& key, std::optional<Index> otherwise = {}) {
    const bool of_windows = own && c.find("swa_" + key) != nullptr;
    return c.positive(of_windows ? "swa_" + key : key, otherwise);
  };
  const Index heads = size("num_attention_heads");
  Heads sizes = {};
  sizes.heads = heads;
  sizes.keys = width_of_keys(c, size);
  sizes.values = c.rule("values") == "own" ? size("v_head_dim", sizes.keys) : sizes.keys;
  const std::string key = c.rule("kv_key", "num_key_value_heads");
  sizes.kv_heads = kv_heads_of(c, heads, [&](Index otherwise) {
    if (c.find(key) == nullptr)
      c.note(key + " " + std::to_string(heads) +
             " is that of num_attention_heads: the file does not give it");
    return size(key, otherwise);
  });
  if (sizes.kv_heads == 0 || sizes.kv_heads > heads || heads % sizes.kv_heads != 0)
    throw DataError("'{}' {}{} does not divide '{}' {}", c.name_of(key), sizes.kv_heads,
                    c.gives(key) ? "" : ", a default that the file does not give,",
                    c.name_of("num_attention_heads"), heads);
  return sizes;
}

void add_heads(CachedLayer& layer, const Heads& heads) {
  layer.heads = heads.heads;
  layer.parts.insert(layer.parts.begin(),
                     {{"k", heads.kv_heads, heads.keys}, {"v", heads.kv_heads, heads.values}});
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

// What a layer of this program with such heads keeps of each sequence: a state and, if it has
// convolutions, their inputs.
void add_state_of(CachedLayer& layer, const char* kind, Index heads, Index width,
                  nlohmann::ordered_json settings = {}) {
  constexpr double kMost = 1 << 20;  // more than any model has; a layer is made of them
  if (1.0 * heads * width > kMost) refuse_size();
  settings.update({{"heads", heads}, {"head-dim", width}});
  const Given given(attention_settings(), settings);
  named_error<DataError, ShapeError>("the sizes of a state", [&] {
    for (const Kept& kept : cache_parts(resolve_attention(attention_kind(kind), given, {})))
      add_once(layer, kept.name == kState ? kState : kConvolutions, static_cast<double>(kept.width),
               kept.heads);
  });
}

// Whether rows are latents. Files of DeepSeek-V2's type may say that their heads are ordinary.
bool has_latents(const Configuration& c) {
  const Json* const used = c.find("use_mla");
  return c.rule("rows") == "latent" && (used == nullptr || *used != false);
}

// Whether a layer has an indexer, or reads what an earlier one's picked.
bool has_indexer(const Configuration& c, Index i) {
  c.find("index_topk");  // tokens that are read, of all that are kept
  const Index offset = c.whole("index_skip_topk_offset", 2);
  const Index every = c.positive("index_topk_freq", 1);
  const Json* const pattern = c.find("index_topk_pattern");  // "FSSF"
  const auto at = static_cast<std::size_t>(i);
  if (const Json* const types = c.list("indexer_types"))
    return i >= std::ssize(*types) || (*types)[at] == "full";
  if (pattern != nullptr && pattern->is_string()) {
    const auto& letters = pattern->get_ref<const std::string&>();
    return at >= letters.size() || letters[at] == 'F';
  }
  return std::max<Index>(i - offset + 1, 0) % every == 0;
}

// Keys of an indexer: one for each token, or for each of the blocks that it pools.
void add_index(CachedLayer& layer, const Configuration& c, Index i) {
  if (!has_indexer(c, i)) return;
  const Index pooled = c.positive("index_kpool", 1);
  add_row(layer, kIndexKey, c.positive("index_head_dim"), pooled == 1 ? 0 : pooled);
  if (!layer.expanded_parts.empty()) layer.expanded_parts.push_back(layer.parts.back());
}

// Multi-head latent attention.
void add_latent(CachedLayer& layer, const Configuration& c) {
  const Index rope = c.whole("qk_rope_head_dim"), rank = c.positive("kv_lora_rank");
  const Index heads = layer.heads = c.positive("num_attention_heads");
  add_row(layer, "latent", rank);
  if (rope > 0) add_row(layer, "rope_key", rope);
  layer.expanded_parts = {{"k", heads, c.positive("qk_nope_head_dim") + rope},
                          {"v", heads, c.positive("v_head_dim")}};
}

// DeepSeek-V4: rows of a window, rows pooled from blocks, and keys of an indexer for the latter.
void add_compressed(CachedLayer& layer, const Configuration& c, const std::string& kind) {
  c.find("index_topk");  // tokens that are read, of all that are kept
  const Index width = c.positive("head_dim");
  add_row(layer, "kv", width);
  if (kind == "sliding_attention") return;
  const bool all = kind == "heavily_compressed_attention";
  const Index block = kind == "shared_compressed_attention"
                          ? c.positive("compress_ratios")
                          : c.positive("compress_rates." + kind, all ? 128 : 4);
  add_row(layer, "pooled", width, block);
  if (!all) add_row(layer, kIndexKey, c.positive("index_head_dim"), block);
}

// Mamba without heads, whose convolution is over values alone; as in PLaMo 2, which has heads.
void add_mamba(CachedLayer& layer, double inner, Index states, Index taps) {
  add_once(layer, kState, inner * states);
  add_once(layer, kConvolutions, inner, taps - 1);
}

void add_mamba(CachedLayer& layer, const Configuration& c) {
  const auto inner = [&] { return c.positive("expand", 2) * c.positive("hidden_size"); };
  const Index states = c.positive("state_size"), taps = c.positive("conv_kernel");
  const bool all = c.rule("every") == "linear_attention";
  if (c.rule("state") == "mamba")
    return add_mamba(layer, all ? c.positive("intermediate_size", inner()) : inner(), states, taps);
  const Index heads = c.positive("ssm_heads");
  const std::string key = all ? "head_dim" : "ssm_head_dim";
  const Json* const given = c.find(key);  // or "auto"
  const bool is_given = given != nullptr && given->is_number() && c.rule("state_width").empty();
  const Index width = is_given                           ? c.positive(key)
                      : c.find("mamba_d_ssm") != nullptr ? c.positive("mamba_d_ssm") / heads
                                                         : inner() / heads;
  if (c.rule("convolutions") == "values")
    return add_mamba(layer, 1.0 * heads * width, states, taps);
  add_state_of(
      layer, "ssd", heads, width,
      {{"state-dim", states}, {"ssd-groups", c.positive("ssm_groups")}, {"conv-taps", taps}});
}

// Gated delta rule, of Qwen3-Next and others.
void add_delta(CachedLayer& layer, const Configuration& c) {
  const Index attention_heads = c.positive("num_attention_heads");
  const Index key_heads = c.positive("linear_num_key_heads", attention_heads);
  const Index value_heads = c.positive("linear_num_value_heads", attention_heads);
  // As OLMo Hybrid has them; the other types have defaults.
  const Index usual = 3 * c.positive("hidden_size") / (4 * key_heads);
  const Index key = c.positive("linear_key_head_dim", usual);
  const Index value = c.positive("linear_value_head_dim", 2 * key);
  add_state_of(
      layer, "delta", value_heads, key,
      {{"key-heads", key_heads}, {"v-dim", value}, {"conv-taps", c.positive("conv_kernel")}});
}

// Kimi Delta Attention.
void add_kda(CachedLayer& layer, const Configuration& c) {
  const bool sized = c.find("linear_num_heads") != nullptr && c.find("linear_head_dim") != nullptr;
  const Index heads = c.positive(sized ? "linear_num_heads" : "num_attention_heads");
  const Index width = sized ? c.positive("linear_head_dim") : width_of_keys(c);
  add_state_of(layer, "kda", heads, width, {{"conv-taps", c.positive("conv_kernel")}});
}

void add_lightning(CachedLayer& layer, const Configuration& c) {
  const Index given = c.whole("lightning_heads", 0);
  const Index heads = given > 0 ? given : c.positive("num_attention_heads");
  add_state_of(layer, "lightning", heads, c.positive("lightning_head_dim", width_of_keys(c)));
}

// Compressed convolutional attention of ZAYA: inputs of two convolutions over queries and keys, and
// the half of the values that is one token late.
void add_late_values(CachedLayer& layer, const Configuration& c) {
  const Heads heads = heads_of(c);
  const Index channels = (heads.heads + heads.kv_heads) * heads.keys;
  add_once(layer, kConvolutions, channels, c.positive("cca_time0") + c.positive("cca_time1") - 2);
  add_once(layer, kState, static_cast<double>(heads.kv_heads * heads.values / 2));
}

// The state of a layer, and inputs of its convolutions.
void add_state(CachedLayer& layer, const Configuration& c) {
  std::string state = c.rule("state");
  // Ling 3 has convolutions, which lightning attention has not.
  const Json* const named = c.find("linear_attention");
  if (state == "lightning" &&
      (c.find("conv_kernel") != nullptr || (named != nullptr && *named == "kda")))
    state = "kda";
  if (state.starts_with("mamba")) return add_mamba(layer, c);
  if (state == "lightning") return add_lightning(layer, c);
  if (state == "kda") return add_kda(layer, c);
  if (state == "delta") return add_delta(layer, c);
  if (state == "late_values") return add_late_values(layer, c);
  if (state != "lru") throw DataError("layers of the type {} have no state", c.type());
  const Index width = c.positive("lru_width", c.positive("hidden_size"));
  add_once(layer, kState, width);
  add_once(layer, kConvolutions, width, c.positive("conv_kernel") - 1);
}

// Embeddings of n-grams beside a layer of Qwen4-Exp, with a convolution over residual streams.
void add_embeddings(CachedLayer& layer, const Configuration& c, Index i) {
  const Json* const layers = c.list("ple_layer_ids");  // from 1
  if (layers == nullptr || std::ranges::find(*layers, Json(i + 1)) == layers->end()) return;
  add_once(layer, kConvolutions, 1.0 * c.positive("hc_count") * c.positive("hidden_size"),
           (c.positive("ple_conv_kernel_size") - 1) * c.positive("ngram_size"));
}

// Heads of a full layer of Gemma 4, which may differ from those of its windows.
Heads full_heads_of(const Configuration& c) {
  Heads heads = heads_of(c);
  if (!c.knows("global_head_dim") || c.find("global_head_dim") == nullptr) return heads;
  heads.keys = heads.values = c.positive("global_head_dim");
  const Index alone = c.positive("num_global_key_value_heads", heads.kv_heads);
  if (c.on("attention_k_eq_v")) heads.kv_heads = alone;
  return heads;
}

constexpr const char* kNothing = "nothing";

// `c` is that of the layer `i`.
CachedLayer layer_of(const Configuration& c, const std::string& kind, Index i) {
  CachedLayer layer;
  if (kind == kNothing || c.on("no_op") || c.on("replace_with_linear")) return {.kind = kNothing};
  if (kind == "cross_attention") return {.kind = "nothing: it reads pictures"};
  const bool latent = has_latents(c), v4 = c.rule("rows") == "v4";
  const bool chunks = kind == "chunked_attention";
  const bool local = chunks || kind == "sliding_attention" || kind == "hybrid_sliding";
  const bool hybrid = kind.starts_with("hybrid");
  if (local || v4) layer.window = window_of(c, chunks ? "attention_chunk_size" : "sliding_window");
  if (local && c.rule("every") != "sliding_attention" && !c.knows("use_sliding_window") &&
      c.find("sliding_window") == nullptr && !chunks)
    c.note("the file gives no sliding_window: layers that should have one count as full attention");
  const std::string window =
      layer.window == 0 ? ""
                        : (chunks ? "chunks of " : "window of ") + std::to_string(layer.window);
  const bool indexed = kind == "indexed_attention";
  if (v4 &&
      (local || kind.ends_with("compressed_attention") || kind.ends_with("_sparse_attention"))) {
    layer.kind = local ? window : "pooled rows beside a window";
    add_compressed(layer, c, kind);
  } else if (kind == "linear_attention" || hybrid) {
    layer.kind = !hybrid ? "state" : "state beside " + (window.empty() ? "full attention" : window);
    add_state(layer, c);
    if (hybrid) add_heads(layer, heads_of(c, local));
  } else if (kind == "conv") {
    layer.kind = "convolution";
    add_once(layer, kConvolutions, 1.0 * c.positive("hidden_size"), c.positive("conv_kernel") - 1);
  } else if (!local && !indexed && kind != "full_attention") {
    throw DataError("the configuration has a layer of the unknown kind {}",
                    headcount::quoted(kind));
  } else if (latent) {
    layer.kind = window.empty() ? "latent" : "latent, " + window;
    add_latent(layer, c);
  } else {
    layer.kind = window.empty() ? "full attention" : window;
    add_heads(layer, local ? heads_of(c, true) : full_heads_of(c));
  }
  const Json* const used = c.find("sparse_attention_config.use_sparse_attention");
  if (indexed && (used == nullptr || *used != false)) add_index(layer, c, i);
  add_embeddings(layer, c, i);
  return layer;
}

constexpr const char* kShared = "nothing: they share an earlier layer's rows";

// Layers that read what an earlier layer of their kind kept: the last ones, or all but one of each
// so many.
void share_rows(std::vector<CachedLayer>& layers, const Configuration& c) {
  const Index shared = c.whole("num_kv_shared_layers", 0), count = std::ssize(layers);
  if (shared > 0 && shared >= count)
    throw DataError("'num_kv_shared_layers' {} is not less than the count of layers, {}", shared,
                    count);
  const Index of_each = c.on("use_cla") ? c.positive("cla_share_factor", 2) : 1;
  for (Index i = 0; i < count; ++i) {
    if (i >= count - shared || i % of_each != 0)
      layers[static_cast<std::size_t>(i)] = {.kind = kShared};
  }
}

// Compares with the first layer that keeps keys, if any does.
void refuse_unread_sizes(const Configuration& c, const ModelCache& cache) {
  for (const CachedLayer& layer : cache.layers) {
    if (layer.parts.empty() || layer.parts[0].name != "k") continue;
    return c.refuse_unread_sizes(layer.parts[0].heads, layer.parts[0].width);
  }
}

// Positions of the model; 0 if the file says none that can be.
Index context_of(const Configuration& c) {
  const Json* const positions = c.find("max_position_embeddings");
  if (positions == nullptr) return 0;
  const double number = positions->is_number() ? positions->get<double>() : -1;
  if (number >= 0 && number < 0x1p31 && number == std::floor(number))
    return static_cast<Index>(number);
  c.note("'" + c.name_of("max_position_embeddings") + "' is not used: it is no count of tokens");
  return 0;
}

ModelCache read_sizes(const Json& config, const std::string& as) {
  if (!config.is_object()) throw DataError("the configuration is not a JSON object");
  const Configuration c = Configuration::of(config, as);
  ModelCache cache{.type = c.type(), .unrounded = CacheType::bf16};
  const LayerKinds kinds = layer_kinds(c);
  Index i = 0;
  for (const std::string& kind : kinds.model) {
    cache.layers.push_back(layer_of(c.of_layer(i), kind, i));
    ++i;
  }
  share_rows(cache.layers, c);
  for (const std::string& kind : kinds.draft) {
    cache.draft.push_back(layer_of(c.of_layer(i), kind, i));
    ++i;
  }
  c.refuse_unread_keys();
  refuse_unread_sizes(c, cache);
  cache.context = context_of(c);
  cache.notes = c.notes();  // before sizes that no layer needs
  cache.width = c.whole("hidden_size", 0);
  const Configuration first = c.of_layer(0);
  cache.heads = first.whole("num_attention_heads", 0);
  if (cache.heads > 0)
    cache.head_dim = has_latents(c) ? c.positive("v_head_dim") : heads_of(first).keys;
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
