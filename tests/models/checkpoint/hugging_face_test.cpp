#include "models/checkpoint/hugging_face.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "models/language_model.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using nlohmann::json;

ModelPlan config_with(const json& settings) {
  return resolve_model(Given(model_settings(), settings));
}

json changed(json config, const json& keys) {
  config.update(keys);
  return config;
}

std::string config_refusal(const json& config) {
  return message_of<DataError>([&] { read_hugging_face_config(config); }, "accepted");
}

// The keys that transformers 4.40 writes for a small Llama.
json llama() {
  return json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
    "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 32,
    "initializer_range": 0.02, "intermediate_size": 64, "max_position_embeddings": 128,
    "mlp_bias": false, "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 2,
    "num_key_value_heads": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
    "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "float32",
    "transformers_version": "4.40.0", "use_cache": true, "vocab_size": 65})");
}

// Keys of the folder that models with these settings have.
TEST(HuggingFaceConfig, IsThatOfAKindOfModelWhichOtherProgramsKnow) {
  const json llama_keys = json::parse(R"({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 65,
      "hidden_size": 128, "num_attention_heads": 4, "head_dim": 32, "intermediate_size": 344,
      "hidden_act": "silu", "tie_word_embeddings": false})");
  const json qwen_keys = {{"architectures", {"Qwen3ForCausalLM"}}, {"model_type", "qwen3"}};
  const json deepseek_keys = json::parse(R"({
      "architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 48, "q_lora_rank": null,
      "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "rope_interleave": true,
      "first_k_dense_replace": 4, "num_hidden_layers": 4})");
  struct Known {
    std::string attention, qk_norm;
    json keys, kv_heads;
  };
  for (const auto& [attention, qk_norm, keys, kv_heads] : {Known{"mha", "off", llama_keys, 4},
                                                           {"gqa", "off", llama_keys, 2},
                                                           {"mqa", "off", llama_keys, 1},
                                                           {"mha", "on", qwen_keys, 4},
                                                           {"gqa2", "on", qwen_keys, 2},
                                                           {"mqa", "on", qwen_keys, 1},
                                                           {"mla", "off", deepseek_keys, 4}}) {
    const json written =
        hugging_face_config(config_with({{"attention", attention}, {"qk-norm", qk_norm}}), 65);
    for (const auto& [key, value] : keys.items()) EXPECT_EQ(written.at(key), value) << key;
    if (attention != "mla") {
      EXPECT_EQ(written["num_key_value_heads"], kv_heads);
    }
    EXPECT_FALSE(written.contains("headcount")) << written["headcount"];
    for (const char* key : {"bos_token_id", "eos_token_id"})
      EXPECT_TRUE(written.at(key).is_null()) << "the default is a character of ours";
  }
}

TEST(HuggingFaceConfig, OfAQwen3IsReadAsTransformersWritesIt) {
  const ModelPlan model = config_with({{"attention", "gqa2"}, {"qk-norm", "on"}});
  json written = hugging_face_config(model, 65);
  EXPECT_FALSE(written.contains("mlp_bias")) << written;
  written.update({{"use_sliding_window", false},
                  {"max_window_layers", 28},
                  {"layer_types", {"full_attention", "full_attention"}}});
  EXPECT_EQ(read_hugging_face_config(written).model->settings, model->settings);
  for (const json& unknown : {json{{"rms_norm_eps", 1e-5}}, json{{"use_sliding_window", true}},
                              json{{"layer_types", {"full_attention", "sliding_attention"}}},
                              json{{"attention_bias", true}}})
    EXPECT_THROW(read_hugging_face_config(changed(written, unknown)), DataError) << unknown;
}

// The layers of a Llama or DeepseekV3 are all alike, and none shares a cache.
TEST(HuggingFaceConfig, OfAPatternIsNoLlamaAndNoDeepseek) {
  for (const char* attention : {"mqa/share", "gqa2/gqa4", "mla/mla48+8", "gqa2@8/gqa2"}) {
    const json written = hugging_face_config(config_with({{"attention", attention}}), 65);
    EXPECT_EQ(written["model_type"], "headcount") << attention;
    EXPECT_EQ(written["headcount"]["attention"], attention);
  }
  EXPECT_EQ(hugging_face_config(config_with({{"attention", "gqa2/gqa2"}}), 65)["model_type"],
            "llama");
}

TEST(HuggingFaceConfig, IsReadAsTransformersWritesIt) {
  json config = llama();
  const NamedConfig read = read_hugging_face_config(config);
  EXPECT_EQ(read.vocabulary, 65);
  const AttentionPlan& attention = read.model->cycle.front();
  EXPECT_EQ(attention.kind().name, "gqa");
  EXPECT_EQ(attention.values().at("kv-heads"), 2);
  EXPECT_EQ(attention.head_dim, 8);
  EXPECT_EQ(attention.rope_theta, 500000);
  EXPECT_EQ(attention.rotary_layout, RotaryLayout::half);
  EXPECT_EQ(read.model->norm_epsilon, 1e-5);
  EXPECT_TRUE(read.model->tie_embeddings);
  for (const char* key : {"rope_type", "type"})
    EXPECT_EQ(config_refusal(changed(config, {{"rope_scaling", {{key, "default"}}}})), "accepted");
  // Without a number of KV heads there is one for each head. Newer versions have a block for RoPE.
  for (const char* key : {"rope_theta", "rope_scaling", "num_key_value_heads"}) config.erase(key);
  config["rope_parameters"] = {{"rope_theta", 1234.0}, {"rope_type", "default"}};
  const ModelPlan newer = read_hugging_face_config(config).model;
  EXPECT_EQ(newer->cycle.front().rope_theta, 1234);
  EXPECT_EQ(newer->attention, "mha");
  config["num_key_value_heads"] = nullptr;
  EXPECT_EQ(read_hugging_face_config(config).model->attention, "mha");
}

TEST(HuggingFaceConfig, RefusesWhatItCannotRepresentByNamingTheKey) {
  const json changes = json::parse(R"([
    {"model_type": "bert"}, {"model_type": 7}, {"hidden_act": "gelu"},
    {"rope_scaling": {"type": "linear", "factor": 2.0}}, {"rope_scaling": "default"},
    {"rope_parameters": {"rope_type": "yarn"}}, {"rope_theta": []}, {"sliding_window": 4096},
    {"mlp_bias": true}, {"attention_bias": 1}, {"pretraining_tp": 2},
    {"quantization_config": {"bits": 4}}, {"hidden_size": "wide"}, {"intermediate_size": 0},
    {"vocab_size": 0}, {"vocab_size": 65.7}, {"num_key_value_heads": 1e300},
    {"rms_norm_eps": -1.0}])");
  for (const json& change : changes) {
    const std::string refusal = config_refusal(changed(llama(), change));
    EXPECT_NE(refusal.find("'" + change.begin().key()), std::string::npos) << change << refusal;
  }
  for (const char* key : {"model_type", "vocab_size", "hidden_size", "intermediate_size",
                          "num_hidden_layers", "num_attention_heads"}) {
    json config = llama();
    config.erase(key);
    EXPECT_NE(config_refusal(config).find(key), std::string::npos) << config_refusal(config);
  }
}

TEST(HuggingFaceConfig, OfDeepseekNeedsItsWidthsNoExpertsAndNoHeadsThatDivideTheWidth) {
  json config = hugging_face_config(config_with({{"attention", "mla"}}), 65);
  config["num_attention_heads"] = 3;
  EXPECT_EQ(config_refusal(config), "accepted");
  const json expert = {{"first_k_dense_replace", 1}}, biased = {{"attention_bias", true}};
  for (const json& other : {expert, biased})
    EXPECT_TRUE(
        config_refusal(changed(config, other)).starts_with("'" + other.begin().key() + "'"));
  for (const char* key :
       {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    json without = config;
    without.erase(key);
    EXPECT_EQ(config_refusal(without), "'" + std::string(key) + "' is missing");
  }
}

TEST(HuggingFaceNote, NamesHeadsThatTransformersRefuses) {
  EXPECT_EQ(hugging_face_note(config_with({{"heads", "4"}})), "");
  EXPECT_EQ(
      hugging_face_note(config_with({{"attention", "mla"}, {"heads", "3"}, {"head-dim", "8"}})),
      "");
  const std::string note = hugging_face_note(config_with({{"heads", "3"}, {"head-dim", "8"}}));
  EXPECT_NE(note.find("3 does not divide 128"), std::string::npos) << note;
}

}  // namespace
}  // namespace headcount
