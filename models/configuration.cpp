#include "models/configuration.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/model_data.h"

namespace headcount {

namespace {

using Json = nlohmann::json;

const Json& rules() {
  static const Json all = Json::parse(kModelTypes);
  return all;
}

const Json& types() { return rules().at("types"); }

// The configuration of the text, which a multimodal one holds inside.
const Json& text_of(const Json& config) {
  for (const char* key : {"text_config", "language_config", "llm_config", "thinker_config"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object()) return text_of(*found);
  }
  return config;
}

// The name in model_types.json of a configuration's type.
std::string type_of(const Json& config, const Json& text, const std::string& as) {
  const auto named = [](const Json& object) {
    const auto found = object.find("model_type");
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  std::string type = as.empty() ? named(text) : as;
  if (type.empty() && &config != &text) type = named(config) + "_text";
  for (const std::string& name : {type, type + "_text"}) {
    if (types().contains(name)) return name;
  }
  if (type.empty())
    throw DataError("the configuration has no 'model_type'; name the type whose rules apply");
  std::vector<std::string> known;
  for (const auto& [name, rules] : types().items()) known.push_back(name);
  throw DataError("the model type '{}' is unknown{}", type, suggestion(type, known));
}

}  // namespace

Configuration Configuration::of(const Json& config, const std::string& as) {
  const Json& text = text_of(config);
  const std::string type = type_of(config, text, as);
  return {text, types().at(type), type};
}

const Json* Configuration::find(const std::string& key) const {
  auto names = rules().at("other_names_of_keys").value(key, std::vector<std::string>());
  names.insert(names.begin(), key);
  for (const std::string& name : names) {
    if (const auto found = config_.find(name); found != config_.end())
      return found->is_null() ? nullptr : &*found;
  }
  const Json& defaults = rules_.at("defaults");
  const auto found = defaults.find(key);
  return found == defaults.end() ? nullptr : &*found;
}

Index Configuration::whole(const std::string& key, std::optional<Index> otherwise) const {
  const Json* const value = find(key);
  if (value == nullptr) {
    if (otherwise) return *otherwise;
    throw DataError("the configuration has no '{}', and its type has no default for it", key);
  }
  constexpr Index kMost = 2'147'483'647;  // which an Index of 32 bits can be, too
  const bool fits = value->is_number_integer() && !(*value < 0) && !(*value > kMost);
  if (!fits) refuse(key, *value, "it must be a whole number from 0 to 2147483647");
  return value->get<Index>();
}

Index Configuration::positive(const std::string& key, std::optional<Index> otherwise) const {
  const Index value = whole(key, otherwise);
  if (value == 0) throw DataError("'{}' must be at least 1, is 0", key);
  return value;
}

bool Configuration::on(const std::string& key) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->is_boolean()) refuse(key, *value, "it must be true or false");
  return value != nullptr && value->get<bool>();
}

const Json* Configuration::list(const std::string& key) const {
  const Json* const value = find(key);
  if (value != nullptr && !value->is_array()) refuse(key, *value, "it must be a list");
  return value;
}

Configuration Configuration::nested(const std::string& key) const {
  const Json* const value = find(key);
  if (value == nullptr || !value->is_object())
    throw DataError("the configuration has no object '{}'", key);
  return {*value, rules_, type_};
}

namespace {

bool contains(const Json& list, Index number) {
  return std::ranges::find(list, Json(number)) != list.end();
}

// Kinds of layers that a pattern of letters stands for, as in nemotron_h.
std::vector<std::string> kinds_of_letters(const std::string& pattern) {
  static const std::map<char, const char*> kKinds = {
      {'M', "mamba"}, {'*', "full_attention"}, {'-', "mlp"}, {'E', "moe"}};
  std::vector<std::string> kinds;
  for (const char letter : pattern) {
    const auto found = kKinds.find(letter);
    if (found == kKinds.end())
      throw DataError("'hybrid_override_pattern' has the letter '{}'; known are M * - E", letter);
    kinds.emplace_back(found->second);
  }
  return kinds;
}

Index layer_count(const Configuration& c) {
  const std::string pairs = c.rule("layer_pairs");  // key of the number of pairs of layers
  const Index layers = pairs.empty() ? c.positive("num_hidden_layers") : 2 * c.positive(pairs);
  constexpr Index kMostLayers = 100'000;
  if (layers > kMostLayers)
    throw DataError("'num_hidden_layers' {} is more than {}", layers, kMostLayers);
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
      throw DataError("'{}' has {} entries for 'num_hidden_layers' {}", key, kinds.size(),
                      layer_count(c));
    return kinds;
  }
  return {};
}

// Every so many layers one is of full attention; 0: there is no period.
Index period_of(const Configuration& c) {
  const Index usual = c.number_rule("full_every", 0);
  const std::string key = c.rule("full_every_key");
  if (key.empty()) return usual;
  const Json* const given = c.find(key);
  const bool drawn = given != nullptr && given->is_string();  // "LLLG"
  return drawn ? std::ssize(given->get_ref<const std::string&>()) : c.whole(key, usual);
}

// Kinds of the layers where the configuration does not list them.
std::vector<std::string> derived_kinds(const Configuration& c) {
  const Index layers = layer_count(c);
  const std::string other = c.rule("other"), every = c.rule("every");
  const Index period = period_of(c);
  const Index full_at = c.whole("attn_layer_offset", c.number_rule("full_at", period - 1));
  const Json* full_layers = nullptr;
  for (const char* key : {"attn_layer_indices", "full_attn_idxs"}) {
    if (full_layers == nullptr) full_layers = c.list(key);
  }
  const Json* const hybrid_layers = c.list("hybrid_layer_ids");
  // Dense layers before the others, which have a period of their own.
  const Index of_prefix = c.positive("prefix_dense_sliding_window_pattern", 1);
  const Index prefix =
      c.knows("prefix_dense_sliding_window_pattern") ? c.whole("first_k_dense_replace") : 0;
  const Json* const ratios = c.list("compress_ratios");
  const Json* rotating = nullptr;  // 0: a layer without RoPE
  if (c.rule("full_every_key") == "no_rope_layer_interval") rotating = c.list("no_rope_layers");
  std::vector<std::string> kinds;
  for (Index i = 0; i < layers; ++i) {
    // A window in the configuration is that of all layers, unless the type has a rule.
    std::string kind = every.empty() ? "sliding_attention" : every;
    if (period > 0) {
      const bool listed = rotating != nullptr && i < std::ssize(*rotating);
      const bool at = listed       ? (*rotating)[i] == 0
                      : i < prefix ? (i + 1) % of_prefix == 0
                                   : (i - prefix) % period == full_at;
      kind = at ? c.rule("at_period", "full_attention") : other;
    } else if (hybrid_layers != nullptr) {
      kind = contains(*hybrid_layers, i) ? "hybrid" : other;
    } else if (full_layers != nullptr) {
      kind = contains(*full_layers, i) ? "full_attention" : other;
    } else if (other == "mamba") {
      kind = other;
    } else if (c.knows("max_window_layers")) {
      kind = i >= c.whole("max_window_layers") ? "sliding_attention" : "full_attention";
    } else if (ratios != nullptr && i < std::ssize(*ratios)) {
      const Json& ratio = (*ratios)[i];
      kind = ratio == 0   ? "sliding_attention"
             : ratio == 4 ? "compressed_sparse_attention"
                          : "heavily_compressed_attention";
    } else if (c.rule("rows") == "v4") {
      kind = i >= 2 && i % 2 == 1 ? "compressed_sparse_attention" : "heavily_compressed_attention";
    }
    kinds.push_back(std::move(kind));
  }
  const std::string last = c.rule("last");
  if (last == "full" || (last == "full_if_none" && !std::ranges::count(kinds, "full_attention")))
    kinds.back() = "full_attention";
  return kinds;
}

}  // namespace

std::vector<std::string> layer_kinds(const Configuration& c) {
  const auto listed = listed_kinds(c);
  return listed && !listed->empty() ? *listed : derived_kinds(c);
}

}  // namespace headcount
