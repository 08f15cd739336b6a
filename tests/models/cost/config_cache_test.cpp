#include "models/cost/config_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "models/cost/model_file.h"
#include "support/message_of.h"

namespace headcount {
namespace {

using nlohmann::json;

// The window that a file names but that its class does not read, as a note says; 0: none.
Index unread_window(const ModelCache& cache) {
  const std::string beginning = "sliding_window ";
  for (const std::string& note : cache.notes) {
    if (note.starts_with(beginning) && note.find(" is not counted: ") != note.npos)
      return std::stoll(note.substr(beginning.size()));
  }
  return 0;
}

// What transformers 5.12 holds otherwise than the definitions: a window keeps one row less, for it
// is read together with the new token's; a window that no class reads keeps its rows, too;
// convolutions keep all taps' inputs, but for olmo_hybrid; latents are expanded to the keys and
// values of all heads.
Count held_by_transformers(const ModelCache& cache, Index tokens) {
  Count all;
  const Index unread = unread_window(cache);
  for (const CachedLayer& layer : cache.layers) {
    for (const Kept& kept : layer.parts) {
      Index rows = kept.heads;
      if (kept.name == "convolutions" && cache.type != "olmo_hybrid") ++rows;
      const Index window = layer.is_windowed(kept) ? layer.window : unread;
      if (!kept.per_sequence) rows *= window > 0 ? std::min(tokens, window - 1) : tokens;
      all += Count(rows) * kept.width;
    }
  }
  return all;
}

// 68 configurations with the defaults of most keys, 115 with other sizes and missing keys, and 274
// random ones: windows, lists of kinds, sizes, and keys that are missing or unknown to the type.
// The numbers were counted in the caches that transformers' own classes made.
TEST(ConfigCache, HoldsAsManyNumbersAsTransformers) {
  std::ifstream file(HEADCOUNT_FIXTURE_FOLDER "/transformers_caches.json");
  const json cases = json::parse(file);
  ASSERT_EQ(cases.size(), 457);
  for (const auto& [name, measured] : cases.items()) {
    const ModelCache read = read_config_cache(measured.at("config"));
    ModelCache cache = read.expanded();
    cache.notes = read.notes;
    for (const auto& [tokens, numbers] : measured.at("numbers").items())
      EXPECT_EQ(held_by_transformers(cache, std::stoll(tokens)).value(), numbers.get<Index>())
          << name << " after " << tokens << " tokens";
  }
}

ModelCache released_cache(const std::string& model) {
  return read_config_cache(released_model(model).config);
}

TEST(ConfigCache, HasPublishedSizes) {
  for (const auto& [name, bytes] : {std::pair{"llama-3.1-405b", 516'096},
                                    {"deepseek-v3", 70'272},
                                    {"minimax-m2", 253'952},
                                    {"gpt-2-xl", 300 * 1024},
                                    {"qwen3-235b-a22b", 192'512},
                                    {"step-3", 62'464}})
    EXPECT_EQ(2 * released_cache(name).per_token(), bytes) << name;
  for (const auto& [name, gibibytes] : {std::pair{"gpt-oss-20b", 3.003}, {"kimi-k2", 8.578}})
    EXPECT_NEAR(2.0 * static_cast<double>(released_cache(name).numbers(1 << 17).total().value()) /
                    (1 << 30),
                gibibytes, 0.0005);
  EXPECT_EQ(released_cache("deepseek-v4").numbers(1 << 12).windowed, Index{43} * 128 * 512);
}

TEST(ConfigCache, KeepsThreePartsApart) {
  const Index row = 2 * 4 * 256;
  const CacheSizes gemma = released_cache("gemma-3-4b").numbers(4096);
  EXPECT_EQ(gemma.growing, 5 * row * 4096);
  EXPECT_EQ(gemma.windowed, 29 * row * 1024);
  EXPECT_EQ(gemma.once, 0);
  const ModelCache mamba = released_cache("mamba-2.8b");
  EXPECT_EQ(mamba.numbers(1).total(), mamba.numbers(1 << 20).once);
}

TEST(ConfigCache, CountsBytesOfTypesByPartsAndRecentTokens) {
  const auto bytes = [](const char* model, const char* types, Index recent = 0) {
    CacheRounding rounding = CacheRounding::parse(types);
    rounding.all.recent = recent;
    return released_cache(model).bytes(10, rounding).total();
  };
  EXPECT_EQ(bytes("llama-3.1-8b", "int3", 4), 32 * 2 * 8 * (6 * (48 + 2) + 4 * 2 * 128));
  EXPECT_EQ(bytes("llama-3.1-8b", "int3", 40), bytes("llama-3.1-8b", "bf16"));
  EXPECT_EQ(bytes("deepseek-v3", "latent=int4+rope=bf16"), 10 * 61 * (256 + 2 + 2 * 64));
}

// A group that divides the latent and its rotary key, but no value of a head, 100 wide.
TEST(ConfigCache, RefusesGroupsThatDoNotDivideExpandedRows) {
  json config = released_model("deepseek-v3").config;
  config["v_head_dim"] = 100;
  CacheRounding groups = CacheType::int4;
  groups.all.group = 64;
  EXPECT_THROW(read_config_cache(config).require_fit(groups), ShapeError);
}

TEST(ConfigCache, HasDraftHeadsOfModelsWhoseFilesNameThem) {
  for (const auto& [name, modules] : {std::pair{"deepseek-v3", 1},
                                      {"deepseek-v3.2", 1},
                                      {"deepseek-v4", 1},
                                      {"glm-4.5", 1},
                                      {"glm-4.5-air", 1},
                                      {"minimax-m2", 3}})
    EXPECT_EQ(released_cache(name).draft.size(), modules) << name;
}

TEST(ConfigCache, SharesOutKvHeadsAndNoLatents) {
  const ModelCache llama = released_cache("llama-3.1-8b"), latent = released_cache("deepseek-v3");
  EXPECT_EQ(llama.of_shard(4).per_token() * 4, llama.per_token());
  EXPECT_EQ(latent.of_shard(8).per_token(), latent.per_token());
}

TEST(ConfigCache, FindsTheTextOfAMultimodalConfiguration) {
  json text = released_model("gemma-3-4b").config;
  const Count numbers = read_config_cache(text).numbers(100).total();
  for (int i = 0; i < 2; ++i) {
    const json whole = {{"model_type", "gemma3"}, {"text_config", text}};
    EXPECT_EQ(read_config_cache(whole).numbers(100).total(), numbers);
    text.erase("model_type");
  }
}

std::string cache_refusal(const json& config) {
  return message_of<DataError>([&] { read_config_cache(config); }, "");
}

// 50 configurations as people have them, from public repositories, and 192 that vary them: other
// names of keys, lists of layers in each form, and types that have code of their own. Numbers are
// those of the definitions: a token's before windows are full, those of windows alone, a sequence's
// once, and a token's in the draft head. The others must be refused by the key that is wrong.
TEST(ConfigCache, ReadsFilesAsPeopleHaveThem) {
  std::ifstream file(HEADCOUNT_FIXTURE_FOLDER "/released_caches.json");
  const json cases = json::parse(file);
  ASSERT_EQ(cases.size(), 242);
  for (const json& one : cases) {
    SCOPED_TRACE(one.at("name"));
    if (one.contains("refused")) {
      const std::string key = "'" + one.at("refused").get<std::string>() + "'";
      EXPECT_NE(cache_refusal(one.at("config")).find(key), std::string::npos)
          << cache_refusal(one.at("config"));
      continue;
    }
    const ModelCache cache = read_config_cache(one.at("config"));
    EXPECT_EQ(cache.per_token(), one.at("per_token").get<double>());
    EXPECT_EQ(cache.numbers(1).once.value(), one.at("once").get<Index>());
    if (one.contains("windowed")) {
      EXPECT_EQ(cache.numbers(1).windowed.value(), one.at("windowed").get<Index>());
    }
    const double draft = ModelCache{.layers = cache.draft}.per_token();
    EXPECT_EQ(draft, one.value("draft", draft));
  }
}

TEST(ConfigCache, NamesEachSizeThatTheFileDoesNotGive) {
  using Notes = std::vector<std::string>;
  const auto notes = [](const char* config) {
    return read_config_cache(json::parse(config)).notes;
  };
  EXPECT_EQ(notes(R"({"model_type": "bloom", "n_layer": 24, "n_head": 16})"),
            Notes{"hidden_size 64 is the default of bloom: the file does not give it"});
  EXPECT_EQ(
      notes(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 4096,
                      "num_attention_heads": 32})"),
      Notes{"num_key_value_heads 32 is that of num_attention_heads: the file does not give it"});
  EXPECT_EQ(
      notes(R"({"model_type": "gemma2", "num_hidden_layers": 2, "num_attention_heads": 8,
                      "num_key_value_heads": 4, "auto_map": {"AutoConfig": "own.Config"}})"),
      (Notes{"the file names code of its own (auto_map), which may keep something else",
             "the file does not list the kinds of its layers: full_attention in 1 of 2 is the "
             "rule of gemma2",
             "head_dim 256 and sliding_window 4096 are defaults of gemma2: the file does not "
             "give them"}));
  EXPECT_EQ(notes(R"({"model_type": "step3p5", "num_hidden_layers": 1, "head_dim": 128,
                      "num_attention_heads": 64, "num_attention_groups": 8,
                      "layer_types": ["sliding_attention"]})"),
            Notes{"the file gives no sliding_window: layers that should have one count as full "
                  "attention"});
  for (const char* model : {"llama-3.1-8b", "qwen3-8b", "deepseek-v4", "kimi-linear-48b"})
    EXPECT_EQ(released_cache(model).notes, Notes{}) << model;
}

TEST(ConfigCache, SaysWhatOfAFileIsNotCounted) {
  for (const auto& [extra, note] :
       {std::pair{R"({"model_type": "llama", "sliding_window": 4096})",
                  "sliding_window 4096 is not counted: the class of llama does not read it"},
        {R"({"model_type": "mistral", "sliding_window": 4096, "use_sliding_window": false})",
         "sliding_window 4096 is not counted: use_sliding_window is false"},
        {R"({"model_type": "gpt_neox"})",
         "num_key_value_heads 8 is not counted: the class of gpt_neox does not read it"},
        {R"({"model_type": "llama", "text_config": {"model_type": "llama"}})",
         "the configuration of the text gives no sizes: those beside it are counted"},
        {R"({"model_type": "llama", "n_positions": 8192.5})",
         "'n_positions' is not used: it is no count of tokens"},
        {R"({"model_type": "llama", "quantization_config": {"kv_cache_scheme": {"num_bits": 8,
             "type": "float"}}})",
         "the file's kv_cache_scheme stores the cache in 8 bits: `cache-dtype` fp8 counts that"},
        {R"({"model_type": "llama", "quantization_config": {"kv_cache_quant_algo": "FP8"}})",
         "the file's kv_cache_quant_algo stores the cache in 8 bits: `cache-dtype` fp8 counts "
         "that"},
        {R"({"model_type": "llama4_text", "no_rope_layers": [0, 1], "head_dim": 128,
             "attention_chunk_size": 8192})",
         ""}}) {
    json config = {{"hidden_size", 4096},
                   {"num_attention_heads", 32},
                   {"num_hidden_layers", 2},
                   {"num_key_value_heads", 8}};
    config.update(json::parse(extra));
    const std::vector<std::string> notes = read_config_cache(config).notes;
    EXPECT_EQ(notes, std::vector<std::string>(*note == '\0' ? 0 : 1, note));
  }
}

TEST(ConfigCache, HasTheQueryHeadsOfEachLayer) {
  json config = {{"model_type", "mimo_v2_flash"}, {"num_hidden_layers", 2},
                 {"hidden_size", 4096},           {"num_attention_heads", 64},
                 {"num_key_value_heads", 4},      {"head_dim", 192},
                 {"sliding_window", 128},         {"hybrid_layer_pattern", {0, 1}},
                 {"swa_num_attention_heads", 32}};
  const ModelCache windows = read_config_cache(config);
  EXPECT_EQ(windows.layers[0].heads, 64);
  EXPECT_EQ(windows.layers[1].heads, 32);
  EXPECT_EQ(released_cache("deepseek-v3").layers[0].heads, 128);
}

TEST(ConfigCache, TakesAContextWrittenAsAFloatAndLeavesOutOneThatCannotBe) {
  json config = released_model("llama-3.1-8b").config;
  for (const auto& [written, context] :
       {std::pair{json(4096.0), 4096}, {json(1e30), 0}, {json("long"), 0}, {json(-5), 0}}) {
    config["max_position_embeddings"] = written;
    EXPECT_EQ(read_config_cache(config).context, context) << written;
  }
}

TEST(ConfigCache, IsNotGuessedForUnknownTypesButTellsTheMechanism) {
  json config = released_model("llama-3.1-8b").config;
  config["model_type"] = "my\x1b[31mllama";
  for (const auto& [key, type] : {std::pair{"", "`as` llama"},
                                  {"kv_lora_rank", "`as` deepseek_v3"},
                                  {"index_topk", "`as` deepseek_v32"},
                                  {"linear_attn_config", "`as` kimi_linear"}}) {
    if (*key != '\0') config[key] = 1;
    EXPECT_NE(cache_refusal(config).find(type), std::string::npos) << cache_refusal(config);
  }
  EXPECT_EQ(cache_refusal(config).find('\x1b'), std::string::npos);
  EXPECT_NE(cache_refusal({{"model_type", "codeshell"}, {"n_head", 32}, {"num_query_groups", 8}})
                .find("`as` llama"),
            std::string::npos);
  EXPECT_EQ(cache_refusal({{"num_hidden_layers", 2}}),
            "the configuration has no 'model_type'; name the type whose rules apply (`as`)");
  EXPECT_EQ(cache_refusal({{"model_type", 5}}),
            "'model_type' is 5, but it must be a name; `as` names the type whose rules apply");
  EXPECT_EQ(cache_refusal({{"model_type", "bert"}, {"num_attention_heads", 12}}),
            "the model type 'bert' is an encoder, which keeps no cache");
  config = released_model("llama-3.1-8b").config;
  config["model_type"] = "my_llama";
  EXPECT_EQ(read_config_cache(config, "llama").per_token(), 65'536);
}

TEST(ConfigCache, RefusesContradictionsAndNamesTheirKey) {
  for (const json& fault : json::parse(R"([
           {"num_key_value_heads": 5}, {"num_key_value_heads": -8}, {"num_hidden_layers": "32"},
           {"num_hidden_layers": 1000000000000000000}, {"num_attention_heads": 0},
           {"num_attention_heads": 1.5}, {"head_dim": [128]}, {"layer_types": ["full_attention"]},
           {"layer_types": "full"}, {"hidden_size": false}, {"head_dim": 2147483647}])")) {
    json config = released_model("llama-3.1-8b").config;
    config.update(fault);
    EXPECT_NE(cache_refusal(config).find("'" + fault.begin().key() + "'"), std::string::npos)
        << fault << ": " << cache_refusal(config);
  }
  json config = released_model("llama-3.1-8b").config;
  config.erase("num_hidden_layers");
  config["n_layer"] = nullptr;
  EXPECT_EQ(cache_refusal(config), "'n_layer' is null; it must be a whole number");
  config["n_layers"] = 32;
  EXPECT_EQ(cache_refusal(config), "");
  EXPECT_NE(cache_refusal(json::array()), "");
  EXPECT_EQ(cache_refusal({{"model_type", "deepseek"}, {"num_attention_heads", 16}}),
            "'num_key_value_heads' 32, a default that the file does not give, does not divide "
            "'num_attention_heads' 16");
}

}  // namespace
}  // namespace headcount
