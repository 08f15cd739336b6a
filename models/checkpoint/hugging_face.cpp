#include "models/checkpoint/hugging_face.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "nn/attention/attention.h"
#include "nn/attention/costs.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

// Key of config.json and the setting that has its value; true and false stand for on and off. A key
// that is not required may be absent or null; the setting then has its default, which is also that
// of transformers.
struct Key {
  const char *key, *setting;
  bool required = false;
};

// Published architecture. A model belongs to the family if the family's keys, read back, give the
// model.
struct Family {
  const char *model_type, *architecture, *rope_layout;
  std::string_view kinds;  // AttentionKind::architecture of its attentions
  std::vector<Key> keys;
  std::vector<std::pair<const char*, nlohmann::json>> constants;  // keys with one value here
};

std::vector<Key> common_keys_and(std::initializer_list<Key> more) {
  std::vector<Key> keys = {{"hidden_size", "dim", true},
                           {"intermediate_size", "ffn-dim", true},
                           {"num_hidden_layers", "layers", true},
                           {"num_attention_heads", "heads", true},
                           {"max_position_embeddings", "context", true},
                           {"rms_norm_eps", "norm-epsilon"},
                           {"rope_theta", "rope-theta"},
                           {"tie_word_embeddings", "tie-embeddings"},
                           {"attention_bias", "bias"}};
  keys.insert(keys.end(), more);
  return keys;
}

const Family kLlama = {.model_type = "llama",
                       .architecture = "LlamaForCausalLM",
                       .rope_layout = "half",
                       .kinds = "llama",
                       .keys = common_keys_and({{"head_dim", "head-dim"}}),
                       .constants = {}};
const Family kQwen3 = {.model_type = "qwen3",
                       .architecture = "Qwen3ForCausalLM",
                       .rope_layout = "half",
                       .kinds = "llama",
                       .keys = common_keys_and({{"head_dim", "head-dim", true}}),
                       .constants = {{"attention_bias", false}, {"rms_norm_eps", 1e-6}}};
const Family kDeepseek = {.model_type = "deepseek_v3",
                          .architecture = "DeepseekV3ForCausalLM",
                          .rope_layout = "interleaved",
                          .kinds = "deepseek_v3",
                          .keys = common_keys_and({{"kv_lora_rank", "kv-rank", true},
                                                   {"q_lora_rank", "q-rank", true},
                                                   {"qk_nope_head_dim", "nope-dim", true},
                                                   {"qk_rope_head_dim", "rope-dim", true},
                                                   {"v_head_dim", "v-dim", true}}),
                          .constants = {{"attention_bias", false}, {"rope_interleave", true}}};
const Family* const kFamilies[] = {&kLlama, &kQwen3, &kDeepseek};

// Keys with one value in all models here.
const std::vector<std::pair<const char*, nlohmann::json>> kConstants = {
    {"hidden_act", "silu"},
    {"pretraining_tp", 1},
    {"sliding_window", nullptr},
    {"use_sliding_window", false}};

constexpr const char* kOwnType = "headcount";
constexpr const char* kOwnBlock = "headcount";
constexpr const char* kOwnDocuments = "documents";  // in that block

// Keys that are read or checked one by one, do not change what the model computes, or follow from
// other keys.
constexpr std::string_view kOtherKeys =
    "architectures model_type vocab_size headcount hidden_act mlp_bias pretraining_tp "
    "num_key_value_heads rope_scaling rope_parameters rope_interleave sliding_window "
    "use_sliding_window max_window_layers layer_types qk_head_dim torch_dtype dtype "
    "transformers_version _name_or_path use_cache initializer_range return_dict bos_token_id "
    "eos_token_id pad_token_id attention_dropout output_attentions output_hidden_states "
    "first_k_dense_replace num_nextn_predict_layers aux_loss_alpha ep_size moe_layer_freq "
    "moe_intermediate_size n_group topk_group topk_method n_routed_experts n_shared_experts "
    "num_experts_per_tok norm_topk_prob routed_scaling_factor scoring_func";

Index kept_heads(const ModelPlan& model) { return cache_parts(model->cycle.front()).front().heads; }

// Gives `model` the attention of the family whose KV cache has `kv_heads` heads. If there is none,
// `model` gets the last attention of the family; resolving the model then reports what is wrong.
void choose_kind(Given& model, const Family& family, Index kv_heads) {
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->architecture != family.kinds) continue;
    model.put("attention", kind->name);
    if (!kind->numbers.front().empty()) model.put(std::string(kind->numbers.front()), kv_heads);
    try {
      if (kept_heads(resolve_model(model)) == kv_heads) return;
    } catch (const ShapeError&) {
      continue;
    }
  }
}

void read_keys(const nlohmann::json& json, const Family& family, Given& model) {
  for (const Key& key : family.keys) {
    if (key.required && !json.contains(key.key)) throw DataError("'{}' is missing", key.key);
    const nlohmann::json value = json.value(key.key, nlohmann::json());
    if (value.is_null()) continue;
    named_error<DataError, SettingError>(quoted(key.key), [&] {
      model.put(key.setting, value.is_boolean() ? nlohmann::json(value ? "on" : "off") : value);
    });
  }
}

void require_value(const nlohmann::json& json, const char* key, const nlohmann::json& value) {
  if (json.contains(key) && json[key] != value)
    refuse(key, json[key], "the models here have " + value.dump());
}

// Reads the RoPE block of config.json: rope_scaling in older versions of transformers, which says
// how frequencies are scaled; rope_parameters in newer ones, which has all RoPE settings.
void read_rope(const nlohmann::json& json, Given& model) {
  for (const std::string block : {"rope_scaling", "rope_parameters"}) {
    if (!json.contains(block) || json[block].is_null()) continue;
    if (!json[block].is_object()) refuse(block, json[block], "it must be an object");
    for (const auto& [key, value] : json[block].items()) {
      if (key == "rope_theta") {
        model.put("rope-theta", value);
      } else if ((key != "rope_type" && key != "type") || value != "default") {
        refuse(block, json[block], "RoPE frequencies are not scaled here");
      }
    }
  }
}

void refuse_unknown(const nlohmann::json& json, const Family& family) {
  std::vector<std::string_view> known = split_text(kOtherKeys, ' ');
  for (const Key& key : family.keys) known.push_back(key.key);
  if (&family == &kDeepseek) known.push_back("head_dim");  // it equals qk_rope_head_dim
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null() && std::ranges::find(known, key) == known.end())
      refuse(key, value, "no model here has that key");
  }
}

void read_family(const nlohmann::json& json, const Family& family, Given& model) {
  refuse_unknown(json, family);
  model.put("rope-layout", family.rope_layout);
  read_keys(json, family, model);
  if (model.whole("ffn-dim") == 0) {
    refuse("intermediate_size", json["intermediate_size"],
           "models of this type have a norm before each feed-forward layer, and here a layer "
           "without the one is without the other");
  }
  read_rope(json, model);
  for (const auto& [key, value] : kConstants) require_value(json, key, value);
  for (const auto& [key, value] : family.constants) require_value(json, key, value);
  for (const nlohmann::json& type : json.value("layer_types", nlohmann::json::array()))
    require_value({{"layer_types", type}}, "layer_types", "full_attention");
  const nlohmann::json bias = json.value("mlp_bias", nlohmann::json());
  if (!bias.is_null() && bias != (model.text("bias") == "on"))
    refuse("mlp_bias", bias, "biases are everywhere or nowhere here");
}

constexpr const char* kGroups = "num_key_value_heads";

void read_groups(const nlohmann::json& json, const Family& family, Given& model) {
  if (&family == &kQwen3) model.put("qk-norm", "on");
  // A Llama without the key, or with null: one for each head.
  const bool given = &family != &kLlama || !json.value(kGroups, nlohmann::json()).is_null();
  choose_kind(model, family, given ? whole_number(json, kGroups) : model.whole("heads"));
}

void read_deepseek(const nlohmann::json& json, Given& model) {
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->architecture == kDeepseek.kinds) model.put("attention", kind->name);
  }
  // config.json gives all widths of a head, so the heads need not divide the model's width.
  model.put("head-dim", whole_number(json, "qk_nope_head_dim"));
  const Index layers = model.whole("layers");
  const Index dense =
      json.contains("first_k_dense_replace") ? whole_number(json, "first_k_dense_replace") : 0;
  if (dense < layers) {
    refuse(
        "first_k_dense_replace", dense,
        "experts are not here: it must be at least num_hidden_layers, " + std::to_string(layers));
  }
}

// config.json of `model` in the keys of `family`.
Json keys_of(const Family& family, const ModelPlan& model, Index vocabulary) {
  Json json = {{"architectures", {family.architecture}}, {"model_type", family.model_type}};
  json["vocab_size"] = vocabulary;
  for (const Key& key : family.keys) {
    const Json& value = model->settings[key.setting];
    json[key.key] = value == "on" || value == "off" ? Json(value == "on") : value;
  }
  // Without these keys, transformers assumes small ids, which are tokens of ordinary characters
  // here.
  for (const char* key : {"bos_token_id", "eos_token_id"}) json[key] = nullptr;
  json["hidden_act"] = "silu";
  json["rope_scaling"] = nullptr;
  json["torch_dtype"] = sizeof(Real) == sizeof(float) ? "float32" : "float64";
  if (&family == &kLlama) json["mlp_bias"] = model->bias;
  if (&family != &kDeepseek) {
    json[kGroups] = kept_heads(model);
  } else {
    if (json["q_lora_rank"] == 0) json["q_lora_rank"] = nullptr;
    json[kGroups] = model->cycle.front().heads;
    json["rope_interleave"] = true;
    json["first_k_dense_replace"] = model->layers;
  }
  return json;
}

// Names and shapes of the weights of an attention layer.
std::vector<std::pair<std::string, Shape>> weights_of(const AttentionPlan& attention) {
  ParameterStore parameters;
  make_attention(parameters, "", attention, {});
  std::vector<std::pair<std::string, Shape>> weights;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    weights.emplace_back(parameters.name({i}), parameters.shape({i}));
  return weights;
}

// Returns true if `keys`, read back, give `model` but for what its attention is called, and a width
// of heads beside which others are given.
bool give(const Json& keys, const ModelPlan& model) {
  try {
    const ModelPlan read = read_hugging_face_config(keys).model;
    nlohmann::json names;
    for (const char* name : {"attention", "kv-heads", "head-dim"}) {
      if (model->settings.contains(name)) names[name] = model->settings[name];
    }
    const AttentionPlan &there = read->cycle.front(), &here = model->cycle.front();
    return with_settings(read, names)->settings == model->settings &&
           weights_of(there) == weights_of(here) && there.norm_epsilon == here.norm_epsilon;
  } catch (const Error&) {
    return false;
  }
}

// The family that a model belongs to, or null.
const Family* family_of(const ModelPlan& model) {
  // Layers of a family are all alike, and rotate.
  if (model->cycle.size() > 1 || model->settings.value("rope-dim", Index{1}) == 0) return nullptr;
  const std::string_view architecture = model->cycle.front().kind().architecture;
  for (const Family* family : kFamilies) {
    if (architecture == family->kinds && give(keys_of(*family, model, 1), model)) return family;
  }
  return nullptr;
}

// Removes the documents from the settings in the block `own` and returns them.
Documents take_documents(nlohmann::json& own) {
  if (!own.is_object() || !own.contains(kOwnDocuments)) return Documents::one;
  for (const auto& [name, documents] : kKindsOfDocuments) {
    if (own[kOwnDocuments] != nlohmann::json(name)) continue;
    own.erase(kOwnDocuments);
    return documents;
  }
  refuse(kOwnDocuments, own[kOwnDocuments], "known are one, lines and paragraphs");
}

}  // namespace

Json hugging_face_config(const ModelPlan& model, Index vocabulary, Documents documents) {
  Json json = {{"architectures", {"HeadcountForCausalLM"}}, {"model_type", kOwnType}};
  json["vocab_size"] = vocabulary;
  Json block = model->settings;
  if (const Family* const family = family_of(model)) {
    json = keys_of(*family, model, vocabulary);
    const Json read = read_hugging_face_config(json).model->settings;
    for (const auto& [name, value] : model->settings.items()) {
      if (read.contains(name) && read[name] == value) block.erase(name);
    }
  }
  if (documents != Documents::one) {
    using Kind = std::pair<std::string_view, Documents>;
    block[kOwnDocuments] = std::ranges::find(kKindsOfDocuments, documents, &Kind::second)->first;
  }
  if (!block.empty()) json[kOwnBlock] = block;
  return json;
}

NamedConfig read_hugging_face_config(const nlohmann::json& json) {
  if (!json.is_object()) throw DataError("it is no JSON object");
  try {
    Given model(model_settings());
    if (!json.contains("model_type") || !json["model_type"].is_string())
      throw DataError("'model_type' is missing or not a string");
    const std::string type = json["model_type"];
    const Index vocabulary = whole_number(json, "vocab_size");
    const auto family = std::ranges::find(kFamilies, type, &Family::model_type);
    if (family != std::end(kFamilies)) {
      read_family(json, **family, model);
      *family == &kDeepseek ? read_deepseek(json, model) : read_groups(json, **family, model);
    } else if (type != kOwnType) {
      refuse("model_type", type, "known are llama, qwen3, deepseek_v3 and headcount");
    } else if (!json.contains(kOwnBlock)) {
      throw DataError("'headcount' is missing");
    }
    nlohmann::json own = json.value(kOwnBlock, nlohmann::json::object());
    const Documents documents = take_documents(own);
    model.put(own);
    if (vocabulary < 1 || vocabulary > 0x110000)
      refuse("vocab_size", vocabulary, "there are 1 to 1114112 characters");
    return {resolve_model(model), vocabulary, documents};
  } catch (const Error& error) {
    throw DataError("{}", error.what());
  }
}

std::string hugging_face_note(const ModelPlan& model) {
  if (family_of(model) != &kLlama || model->dim % model->cycle.front().heads == 0) return "";
  return "transformers 5 does not open this model: it wants a number of heads that divides dim, " +
         std::to_string(model->cycle.front().heads) + " does not divide " +
         std::to_string(model->dim);
}

}  // namespace headcount
