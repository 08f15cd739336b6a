#include "models/configuration.h"

#include <map>
#include <string_view>

#include "autograd/base/json.h"
#include "models/model_data.h"

namespace headcount {

namespace {

using Json = nlohmann::json;

// Other names of keys, by their most frequent name.
const std::map<std::string_view, std::vector<const char*>> kAliases = {
    {"num_hidden_layers", {"n_layer", "n_layers", "num_layers"}},
    {"num_attention_heads", {"n_head", "n_heads"}},
    {"num_key_value_heads", {"num_kv_heads", "multi_query_group_num"}},
    {"num_kv_heads", {"n_head_kv"}},
    {"hidden_size", {"n_embd", "d_model"}},
    {"head_dim", {"attention_head_dim"}},
    {"max_position_embeddings", {"n_positions", "max_seq_len", "seq_length", "model_max_length"}},
    {"state_size", {"mamba_d_state", "ssm_state_size"}},
    {"expand", {"mamba_expand"}},
    {"conv_kernel", {"mamba_d_conv", "conv_L_cache", "linear_conv_kernel_dim"}},
    {"ssm_heads", {"mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads"}},
    {"ssm_head_dim", {"mamba_d_head", "mamba_head_dim", "mamba_headdim"}},
    {"ssm_groups", {"mamba_n_groups", "n_groups", "mamba_ngroups"}},
};

const Json& types() {
  static const Json all = Json::parse(kModelTypes);
  return all;
}

}  // namespace

Configuration::Configuration(const Json& config, const std::string& type)
    : Configuration(config, types().at(type)) {}

const Json* Configuration::find(const std::string& key) const {
  std::vector<const char*> names = {key.c_str()};
  if (const auto others = kAliases.find(key); others != kAliases.end())
    names.insert(names.end(), others->second.begin(), others->second.end());
  for (const char* name : names) {
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
    throw DataError("the configuration has no '", key, "', and its type has no default for it");
  }
  constexpr Index kMost = 2'147'483'647;  // which an Index of 32 bits can be, too
  const bool fits = value->is_number_integer() && !(*value < 0) && !(*value > kMost);
  if (!fits) refuse(key, *value, "it must be a whole number from 0 to 2147483647");
  return value->get<Index>();
}

Index Configuration::positive(const std::string& key, std::optional<Index> otherwise) const {
  const Index value = whole(key, otherwise);
  if (value == 0) throw DataError("'", key, "' must be at least 1, is 0");
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
    throw DataError("the configuration has no object '", key, "'");
  return {*value, rules_};
}

const std::vector<std::string>& known_model_types() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const auto& [name, rules] : types().items()) names.push_back(name);
    return names;
  }();
  return all;
}

}  // namespace headcount
