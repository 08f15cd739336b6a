#include "models/checkpoint/hugging_face.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/base/json.h"
#include "models/language_model.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

// A key of config.json and the setting that says the same.
struct Pair {
  const char *key, *setting;
};

constexpr Pair kCommon[] = {{"hidden_size", "dim"},
                            {"intermediate_size", "ffn-dim"},
                            {"num_hidden_layers", "layers"},
                            {"num_attention_heads", "heads"},
                            {"max_position_embeddings", "context"},
                            {"rms_norm_eps", "norm-epsilon"},
                            {"rope_theta", "rope-theta"}};
constexpr std::size_t kRequired = 5;  // of the common ones; the others have the same defaults here
constexpr Pair kLlama[] = {{"head_dim", "head-dim"}};
constexpr Pair kDeepseek[] = {{"kv_lora_rank", "kv-rank"},
                              {"q_lora_rank", "q-rank"},
                              {"qk_nope_head_dim", "nope-dim"},
                              {"qk_rope_head_dim", "rope-dim"},
                              {"v_head_dim", "v-dim"}};

// The settings besides those of the pairs that such a folder gives back.
constexpr std::string_view kCommonOthers[] = {"attention", "tie-embeddings"};
constexpr std::string_view kLlamaOthers[] = {"kv-heads", "bias"};
constexpr std::string_view kDeepseekOthers[] = {"head-dim"};  // all widths are given

// The names of weights, without `.weight` and `.bias`; those of a layer without the layer.
constexpr std::string_view kCommonWeights[] = {
    "model.embed_tokens", "model.norm",       "lm_head",
    "input_layernorm",    "self_attn.o_proj", "post_attention_layernorm",
    "mlp.gate_proj",      "mlp.up_proj",      "mlp.down_proj"};
constexpr std::string_view kLlamaWeights[] = {"self_attn.q_proj", "self_attn.k_proj",
                                              "self_attn.v_proj"};
constexpr std::string_view kDeepseekWeights[] = {
    "self_attn.q_proj",        "self_attn.q_a_proj",  "self_attn.q_a_layernorm",
    "self_attn.q_b_proj",      "self_attn.kv_b_proj", "self_attn.kv_a_proj_with_mqa",
    "self_attn.kv_a_layernorm"};

// What a published architecture can say. A model of ours is one of it if the family lists all of
// its weights, and all of its settings that are not as they are by default.
struct Family {
  const char *model_type, *architecture, *rope_layout;
  std::span<const Pair> pairs;                // besides kCommon
  std::span<const std::string_view> others;   // besides kCommonOthers
  std::span<const std::string_view> weights;  // besides kCommonWeights
};
constexpr Family kLlamaFamily = {"llama", "LlamaForCausalLM", "half",
                                 kLlama,  kLlamaOthers,       kLlamaWeights};
constexpr Family kDeepseekFamily = {"deepseek_v3", "DeepseekV3ForCausalLM", "interleaved",
                                    kDeepseek,     kDeepseekOthers,         kDeepseekWeights};
constexpr const char* kOwnType = "headcount";
constexpr const char* kOwnBlock = "headcount";

// Keys that say nothing about what the model computes, or that other keys imply.
const std::set<std::string, std::less<>>& silent_keys() {
  static const std::set<std::string, std::less<>> keys = {"architectures",
                                                          "model_type",
                                                          "vocab_size",
                                                          "torch_dtype",
                                                          "dtype",
                                                          "transformers_version",
                                                          "_name_or_path",
                                                          "use_cache",
                                                          "initializer_range",
                                                          "bos_token_id",
                                                          "eos_token_id",
                                                          "pad_token_id",
                                                          "attention_dropout",
                                                          "rope_interleave",
                                                          "qk_head_dim",
                                                          "num_nextn_predict_layers",
                                                          "return_dict",
                                                          "output_attentions",
                                                          "output_hidden_states",
                                                          "aux_loss_alpha",
                                                          "ep_size",
                                                          "moe_layer_freq",
                                                          "n_group",
                                                          "topk_group",
                                                          "topk_method",
                                                          "n_routed_experts",
                                                          "n_shared_experts",
                                                          "num_experts_per_tok",
                                                          "moe_intermediate_size",
                                                          "norm_topk_prob",
                                                          "routed_scaling_factor",
                                                          "scoring_func",
                                                          "first_k_dense_replace"};
  return keys;
}

bool lists_settings(const Family& family, const ModelPlan& model) {
  std::vector<std::string_view> listed(std::begin(kCommonOthers), std::end(kCommonOthers));
  listed.insert(listed.end(), family.others.begin(), family.others.end());
  for (const auto& pairs : {std::span<const Pair>(kCommon), family.pairs}) {
    for (const Pair& pair : pairs) listed.push_back(pair.setting);
  }
  return settings_beyond(model->settings, listed).empty();
}

bool lists_weight(const Family& family, std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (name.starts_with(kLayers)) name.remove_prefix(name.find('.', kLayers.size()) + 1);
  if (!name.ends_with(".weight") && !name.ends_with(".bias")) return false;
  name = name.substr(0, name.rfind('.'));
  return std::ranges::find(kCommonWeights, name) != std::end(kCommonWeights) ||
         std::ranges::find(family.weights, name) != family.weights.end();
}

bool lists_weights(const Family& family, const ModelPlan& model) {
  // Names do not depend on these, which take time; the first layer may differ from others.
  const LanguageModel small(
      with_settings(model, {{"context", 1}, {"layers", std::min<Index>(model->layers, 3)}}), 1);
  const ParameterStore& parameters = small.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!lists_weight(family, parameters.name({i}))) return false;
  }
  return true;
}

bool is_of(const Family& family, const ModelPlan& model) {
  const Json& settings = model->settings;
  // Both rotate something.
  return settings.value("rope-layout", "") == family.rope_layout &&
         settings.value("rope-dim", Index{1}) != 0 && lists_settings(family, model) &&
         lists_weights(family, model);
}

// The family that a model belongs to, or null.
const Family* family_of(const ModelPlan& model) {
  if (model->cycle.size() > 1) return nullptr;  // their layers are all alike
  for (const Family* family : {&kLlamaFamily, &kDeepseekFamily}) {
    if (model->cycle.front().kind().architecture == family->model_type)
      return is_of(*family, model) ? family : nullptr;
  }
  return nullptr;
}

Index kept_heads(const ModelPlan& model) {
  return describe(model->cycle.front()).keeps.front().heads;
}

// Gives `model` an attention of the family that keeps so many heads. If there is none, it gets the
// last one of the family: resolving that says what is wrong.
void choose_kind(Given& model, const Family& family, Index kv_heads) {
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->architecture != family.model_type) continue;
    model.put("attention", kind->name);
    if (!kind->numbers.front().empty()) model.put(std::string(kind->numbers.front()), kv_heads);
    try {
      if (kept_heads(resolve_model(model)) == kv_heads) return;
    } catch (const ShapeError&) {
      continue;
    }
  }
}

// Sets the settings that `pairs` name; a key that is absent or null leaves its default.
void read_pairs(const nlohmann::json& json, std::span<const Pair> pairs, Given& model) {
  for (const Pair& pair : pairs) {
    if (!json.contains(pair.key) || json[pair.key].is_null()) continue;
    try {
      model.put(pair.setting, json[pair.key]);
    } catch (const SettingError& error) {
      throw DataError("'" + std::string(pair.key) + "': " + error.what());
    }
  }
}

void require_value(const nlohmann::json& json, const char* key, const nlohmann::json& value) {
  if (json.contains(key) && json[key] != value)
    refuse(key, json[key], "the models here have " + value.dump());
}

bool switch_of(const nlohmann::json& json, const char* key, bool otherwise) {
  if (!json.contains(key) || json[key].is_null()) return otherwise;
  if (!json[key].is_boolean()) refuse(key, json[key], "it must be true or false");
  return json[key].get<bool>();
}

// A block of what concerns rotary positions: older versions of transformers have one that says how
// they are stretched, newer ones one for everything.
void read_rope(const nlohmann::json& json, Given& model) {
  for (const std::string block : {"rope_scaling", "rope_parameters"}) {
    if (!json.contains(block) || json[block].is_null()) continue;
    if (!json[block].is_object()) refuse(block, json[block], "it must be an object");
    for (const auto& [key, value] : json[block].items()) {
      if (key == "rope_theta") {
        model.put("rope-theta", value);
      } else if ((key != "rope_type" && key != "type") || value != "default") {
        refuse(block, json[block], "rotary positions are not stretched here");
      }
    }
  }
}

void refuse_unknown(const nlohmann::json& json, const Family& family) {
  static const std::set<std::string, std::less<>> checked = {
      "hidden_act",      "tie_word_embeddings", "attention_bias",
      "mlp_bias",        "pretraining_tp",      "rope_scaling",
      "rope_parameters", "num_key_value_heads", "sliding_window",
      kOwnBlock};
  for (const auto& [key, value] : json.items()) {
    const auto is_key = [&key = key](const Pair& pair) { return key == pair.key; };
    if (value.is_null() || checked.contains(key) || silent_keys().contains(key) ||
        std::ranges::any_of(kCommon, is_key) || std::ranges::any_of(family.pairs, is_key))
      continue;
    if (&family == &kDeepseekFamily && key == "head_dim") continue;  // implied by the rotary width
    refuse(key, value, "no model here has that key");
  }
}

void require_keys(const nlohmann::json& json, std::span<const Pair> pairs) {
  for (const Pair& pair : pairs) {
    if (!json.contains(pair.key)) throw DataError("'" + std::string(pair.key) + "' is missing");
  }
}

void read_family(const nlohmann::json& json, const Family& family, Given& model) {
  refuse_unknown(json, family);
  model.put("rope-layout", family.rope_layout);
  require_keys(json, std::span(kCommon).first(kRequired));
  read_pairs(json, kCommon, model);
  read_pairs(json, family.pairs, model);
  read_rope(json, model);
  require_value(json, "hidden_act", "silu");
  require_value(json, "pretraining_tp", 1);
  require_value(json, "sliding_window", nullptr);
  const bool bias = switch_of(json, "attention_bias", false);
  model.put("tie-embeddings", switch_of(json, "tie_word_embeddings", false) ? "on" : "off");
  model.put("bias", bias ? "on" : "off");
  if (switch_of(json, "mlp_bias", bias) != bias)
    refuse("mlp_bias", json["mlp_bias"], "biases are everywhere or nowhere here");
}

void read_llama(const nlohmann::json& json, Given& model) {
  read_family(json, kLlamaFamily, model);
  choose_kind(model, kLlamaFamily,
              json.contains("num_key_value_heads") ? whole_number(json, "num_key_value_heads")
                                                   : model.get<Index>("heads", 0));
}

void read_deepseek(const nlohmann::json& json, Given& model) {
  require_keys(json, kDeepseek);
  read_family(json, kDeepseekFamily, model);
  for (const AttentionKind* kind : attention_kinds()) {
    if (kind->architecture == kDeepseekFamily.model_type) model.put("attention", kind->name);
  }
  // All widths are given, and heads need not divide the model's.
  model.put("head-dim", whole_number(json, "qk_nope_head_dim"));
  require_value(json, "attention_bias", false);
  require_value(json, "rope_interleave", true);
  const auto layers = model.get<Index>("layers", 0);
  const Index dense =
      json.contains("first_k_dense_replace") ? whole_number(json, "first_k_dense_replace") : 0;
  if (dense < layers) {
    refuse(
        "first_k_dense_replace", dense,
        "experts are not here: it must be at least num_hidden_layers, " + std::to_string(layers));
  }
}

// The settings that reading the keys alone would not give back.
Json own_block(const ModelPlan& model, const Json& keys) {
  const ModelPlan read = read_hugging_face_config(keys).model;
  Json block = Json::object();
  for (const auto& [name, value] : model->settings.items()) {
    if (!read->settings.contains(name) || read->settings[name] != value) block[name] = value;
  }
  return block;
}

// Our own settings, as files of ours have them.
void read_own_block(nlohmann::json settings, Given& model) {
  if (settings.is_object()) settings.erase("dropout");  // earlier versions had it here
  model.put(settings);
}

}  // namespace

Json hugging_face_config(const ModelPlan& model, Index vocabulary) {
  const Family* family = family_of(model);
  Json json;
  if (family == nullptr) {
    json = {{"architectures", {"HeadcountForCausalLM"}}, {"model_type", kOwnType}};
    json["vocab_size"] = vocabulary;
    json[kOwnBlock] = model->settings;
    return json;
  }
  json = {{"architectures", {family->architecture}}, {"model_type", family->model_type}};
  json["vocab_size"] = vocabulary;
  for (const auto& pairs : {std::span<const Pair>(kCommon), family->pairs}) {
    for (const Pair& pair : pairs) json[pair.key] = model->settings[pair.setting];
  }
  // Left out, they would be small numbers, which are ordinary characters here.
  for (const char* key : {"bos_token_id", "eos_token_id"}) json[key] = nullptr;
  json["hidden_act"] = "silu";
  json["tie_word_embeddings"] = model->tie_embeddings;
  json["attention_bias"] = model->bias;
  json["rope_scaling"] = nullptr;
  json["torch_dtype"] = sizeof(Real) == sizeof(float) ? "float32" : "float64";
  if (family == &kLlamaFamily) {
    json["mlp_bias"] = model->bias;
    json["num_key_value_heads"] = kept_heads(model);
  } else {
    if (json["q_lora_rank"] == 0) json["q_lora_rank"] = nullptr;
    json["num_key_value_heads"] = model->cycle.front().heads;
    json["rope_interleave"] = true;
    json["first_k_dense_replace"] = model->layers;
  }
  const Json block = own_block(model, json);
  if (!block.empty()) json[kOwnBlock] = block;
  return json;
}

NamedConfig read_hugging_face_config(const nlohmann::json& json) {
  if (!json.is_object()) throw DataError("it is no JSON object");
  try {
    Given model(model_settings());
    if (!json.contains("model_type") || !json["model_type"].is_string())
      throw DataError("'model_type' is missing, or no text");
    const std::string type = json["model_type"];
    const Index vocabulary = whole_number(json, "vocab_size");
    if (type == kLlamaFamily.model_type) {
      read_llama(json, model);
    } else if (type == kDeepseekFamily.model_type) {
      read_deepseek(json, model);
    } else if (type == kOwnType) {
      if (!json.contains(kOwnBlock)) throw DataError("'headcount' is missing");
    } else {
      refuse("model_type", type, "known are llama, deepseek_v3 and headcount");
    }
    if (json.contains(kOwnBlock)) read_own_block(json[kOwnBlock], model);
    if (vocabulary < 1 || vocabulary > 0x110000)
      refuse("vocab_size", vocabulary, "there are 1 to 1114112 characters");
    return {resolve_model(model), vocabulary};
  } catch (const nlohmann::json::exception& error) {
    throw DataError(error.what());
  } catch (const SettingError& error) {
    throw DataError(error.what());
  } catch (const ShapeError& error) {
    throw DataError(error.what());
  }
}

void require_savable(const ModelPlan& model) {
  require_setting(model->cycle.front().causal, "a model that sees later tokens cannot be saved");
  try {
    const std::string written = hugging_face_config(model, 1).dump();
    const ModelPlan read = read_hugging_face_config(parse_json(written)).model;
    require_setting(read->settings == model->settings, "read back it would be another model");
  } catch (const Error& error) {
    throw ShapeError("a model of these settings cannot be saved: " + std::string(error.what()));
  }
}

std::string hugging_face_note(const ModelPlan& model) {
  if (family_of(model) != &kLlamaFamily || model->dim % model->cycle.front().heads == 0) return "";
  return "transformers 5 does not open this model: it wants a number of heads that divides dim, " +
         std::to_string(model->cycle.front().heads) + " does not divide " +
         std::to_string(model->dim);
}

}  // namespace headcount
