// `headcount sample` as its users meet it: text, JSON, caches, and what it says to bad input.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/text.h"
#include "nn/attention/attention.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr Index kContext = 16;  // of TrainFolder's model

// One small run, which no test changes.
class SampleCommand : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TrainFolder>();
    train("run", "");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static void train(const std::string& run, const std::string& flags) {
    const ProgramResult result =
        folder_->train("--lr 0.01 --warmup 0 --quiet --out " + run + " " + flags);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }

  static ProgramResult run_sample(const std::string& flags,
                                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = words("sample " + over_defaults("--threads 1", flags));
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments, *folder_ / "");
  }
  // Text, from a command that must succeed; `more` may hold spaces.
  static std::string text(const std::string& flags, const std::vector<std::string>& more = {}) {
    const ProgramResult result = run_sample(flags, more);
    EXPECT_EQ(result.exit_code, 0) << flags << "\n" << result.err;
    EXPECT_EQ(result.err, "") << flags;
    return result.out;
  }
  static json object(const std::string& flags) { return json::parse(text("--json " + flags)); }

  static void expect_refusal(int code, const std::string& flags,
                             const std::vector<std::string>& names,
                             const std::vector<std::string>& more = {}) {
    headcount::expect_refusal(run_sample(flags, more), code, names, flags);
  }

  // A copy of the run to be broken, and its checkpoint.
  static std::string copy_run(const std::string& name) {
    fs::copy(*folder_ / "run", *folder_ / name, fs::copy_options::recursive);
    fs::remove(*folder_ / name / "checkpoints/step-3/SHA256SUMS");  // as a folder made elsewhere
    return name + "/checkpoints/step-3";
  }
  // Run `name` is `run` with an edited configuration of its checkpoint.
  template <class Edit>
  static void copy_run_with_config(const std::string& name, const Edit& edit) {
    const std::string config = copy_run(name) + "/config.json";
    json settings = json::parse(folder_->contents(config));
    edit(settings);
    folder_->file(config, settings.dump());
  }

  static std::unique_ptr<TrainFolder> folder_;
};

std::unique_ptr<TrainFolder> SampleCommand::folder_;

TEST_F(SampleCommand, PrintsThePromptAndItsContinuation) {
  const std::string out = text("--from run --tokens 20", {"--prompt", "16 is"});
  EXPECT_TRUE(out.starts_with("16 is")) << out;
  EXPECT_EQ(out.size(), 5u + 20u + 1u);  // and a line break at the end
  EXPECT_EQ(out.find_first_not_of(folder_->contents("text.txt")), std::string::npos);
}

TEST_F(SampleCommand, PrintsTheTextThatJsonHas) {
  const std::string added = object("--from run --tokens 20 --prompt 16").at("text");
  EXPECT_EQ(text("--from run --tokens 20 --prompt 16"), "16" + added + "\n");
}

TEST_F(SampleCommand, WithoutPromptContinuesALineBreak) {
  EXPECT_EQ("\n" + text("--from run --tokens 20"),
            text("--from run --tokens 20", {"--prompt", "\n"}));
}

TEST_F(SampleCommand, WithJsonPrintsOneObject) {
  const json result = object("--from run --tokens 12 --prompt 16");
  std::set<std::string> keys;
  for (const auto& [key, value] : result.items()) keys.insert(key);
  EXPECT_EQ(keys, (std::set<std::string>{"text", "tokens", "ended_by", "tokens_per_second",
                                         "prefill_ms", "cache_bytes_per_token", "cache_bytes"}));
  EXPECT_EQ(result.at("text").get<std::string>().size(), 12u);
  EXPECT_EQ(result.at("tokens"), 12);
  EXPECT_GT(result.at("tokens_per_second").get<double>(), 0);
  EXPECT_GT(result.at("prefill_ms").get<double>(), 0);
  EXPECT_EQ(result.at("cache_bytes_per_token"), 2 * 16 * 4);  // k and v of width 16 in float32
  EXPECT_EQ(result.at("cache_bytes"), 2 * 16 * 4 * kContext);
}

TEST_F(SampleCommand, CountsCharactersNotBytes) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "äöü→𝄞ß\n";
  folder_->file("accents.txt", lines);
  train("accents", "--data accents.txt");
  const json result = object("--from accents --tokens 25 --prompt äö→");
  EXPECT_EQ(result.at("tokens"), 25);
  EXPECT_EQ(decode_utf8(result.at("text").get<std::string>(), "text").size(), 25u);
  EXPECT_TRUE(text("--from accents --tokens 5 --prompt äö→").starts_with("äö→"));
}

TEST_F(SampleCommand, RepeatsATextByItsSeed) {
  const std::string first = text("--from run --tokens 40 --seed 5");
  EXPECT_EQ(text("--from run --tokens 40 --seed 5 --threads 2"), first);
  EXPECT_NE(text("--from run --tokens 40 --seed 6"), first);
}

TEST_F(SampleCommand, WritesEqualTextsWithCacheAndWithout) {
  for (const AttentionKind* kind : attention_kinds()) {
    const std::string name(kind->name);
    train(name, "--attention " + name);
    // Beyond the context too, where the text slides.
    const std::string flags = "--temperature 0 --tokens 60 --prompt 16 --from " + name;
    EXPECT_EQ(text(flags + " --cache on"), text(flags + " --cache off")) << name;
  }
}

TEST_F(SampleCommand, WritesEqualTextsOfAWindowedModelWithCacheAndWithout) {
  train("windowed", "--window 5");
  const std::string flags = "--temperature 0 --tokens 60 --prompt 1600 --from windowed";
  EXPECT_EQ(text(flags + " --cache on"), text(flags + " --cache off"));
  const json result = object(flags);
  EXPECT_EQ(result.at("cache_bytes"), 5 * 2 * 16 * 4);
  EXPECT_EQ(result.at("cache_bytes_per_token"), 5 * 2 * 16 * 4 / double{kContext});
}

TEST_F(SampleCommand, WithoutCacheHasNoCacheBytes) {
  const json result = object("--from run --tokens 5 --cache off");
  EXPECT_EQ(result.at("cache_bytes"), 0);
  EXPECT_EQ(result.at("cache_bytes_per_token"), 0);
}

TEST_F(SampleCommand, SlidesOrStopsAtTheEndOfTheContext) {
  const std::string flags = "--from run --tokens 60 --prompt 16 --at-context ";
  const std::string sliding = object(flags + "slide").at("text");
  EXPECT_EQ(sliding.size(), 60u);
  const json stopped = object(flags + "stop");
  // The last character comes from a full context.
  EXPECT_EQ(stopped.at("tokens"), kContext - 2 + 1);
  EXPECT_EQ(stopped.at("text"), sliding.substr(0, kContext - 2 + 1));
}

TEST_F(SampleCommand, TakesTheEndOfAPromptLongerThanTheContext) {
  const std::string end = "5 is a square.\n1";  // as long as the context
  ASSERT_EQ(end.size(), static_cast<std::size_t>(kContext));
  const std::string flags = "--from run --tokens 20 --temperature 0 --at-context slide";
  const std::string continued = text(flags, {"--prompt", end});
  EXPECT_EQ(text(flags, {"--prompt", "400 is a square.\n22" + end}),
            "400 is a square.\n22" + continued);
}

TEST_F(SampleCommand, RepeatsOnePromptInSeveralTexts) {
  const std::string flags = "--from run --tokens 30 --prompt 16";
  const json result = object(flags + " --repeat 3"), single = object(flags);
  const auto texts = result.at("texts").get<std::vector<std::string>>();
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), 3u);
  for (const std::string& one : texts) EXPECT_EQ(one.size(), 30u);
  EXPECT_EQ(json(texts[0]), result.at("text"));
  EXPECT_EQ(json(texts[0]), single.at("text"));
  EXPECT_EQ(result.at("tokens"), 30);
  EXPECT_EQ(result.at("cache_bytes"), 3 * single.at("cache_bytes").get<int>());
  EXPECT_EQ(result.at("cache_bytes_per_token"), single.at("cache_bytes_per_token"));
  EXPECT_EQ(text(flags + " --repeat 3"),
            "--- 1\n16" + texts[0] + "\n--- 2\n16" + texts[1] + "\n--- 3\n16" + texts[2] + "\n");
}

TEST_F(SampleCommand, EndsATextWithAStopString) {
  const std::string flags = "--from run --tokens 30 --repeat 2 --prompt 16";
  const auto whole = object(flags).at("texts").get<std::vector<std::string>>();
  const std::string stop = whole[0].substr(7, 4);  // the second text has it nowhere
  const std::string ended = whole[0].substr(0, whole[0].find(stop) + 4);
  ASSERT_EQ(whole[1].find(stop), std::string::npos);
  const json result =
      json::parse(text(flags + " --json ", {"--stop", stop, "--stop", whole[1].substr(20)}));
  EXPECT_EQ(result.at("texts"), json({ended, whole[1]}));
  EXPECT_EQ(result.at("tokens"), ended.size());
  EXPECT_EQ(result.at("ended_by"), "stop");
  EXPECT_EQ(result.at("texts_ended_by"), json({"stop", "stop"}));
  EXPECT_EQ(text("--from run --tokens 30 --prompt 16", {"--stop", stop}), "16" + ended + "\n");
  EXPECT_EQ(object("--from run --tokens 3").at("ended_by"), "tokens");
  EXPECT_EQ(object("--from run --tokens 30 --at-context stop").at("ended_by"), "context");
  expect_refusal(kUsage, "--from run --stop=", {"--stop is empty"});
  expect_refusal(kData, "--from run --stop ~", {"--stop", "lacks '~'"});
}

TEST_F(SampleCommand, WritesEqualTextsInEveryModeOfMla) {
  train("latent", "--attention mla");
  const std::string flags = "--from latent --temperature 0 --tokens 60 --prompt 16 --mla ";
  const std::string automatic = text(flags + "auto");
  EXPECT_EQ(text(flags + "absorbed"), automatic);
  EXPECT_EQ(text(flags + "expanded"), automatic);
}

TEST_F(SampleCommand, StoresTheCacheInTheGivenType) {
  const auto bytes_per_token = [](const std::string& type) {
    const json result = object("--from run --tokens 5 --cache-dtype " + type);
    const int bytes = result.at("cache_bytes_per_token");
    EXPECT_EQ(result.at("cache_bytes"), bytes * kContext) << type;
    return bytes;
  };
  EXPECT_EQ(bytes_per_token("f32"), 2 * 2 * 8 * 4);  // k and v, 2 heads of 8
  EXPECT_EQ(bytes_per_token("f16"), 2 * 2 * 8 * 2);
  EXPECT_EQ(bytes_per_token("bf16"), 2 * 2 * 8 * 2);
  EXPECT_EQ(bytes_per_token("int8"), 2 * 2 * (8 + 4));  // and a scale
  EXPECT_EQ(bytes_per_token("int3"), 2 * 2 * (3 + 2));
  EXPECT_EQ(bytes_per_token("k=int4,v=int2"), 2 * (4 + 2) + 2 * (2 + 2));
}

TEST_F(SampleCommand, WithStrictFiltersTakesTheLikeliest) {
  const std::string flags = "--from run --tokens 30 --prompt 16 ";
  const std::string likeliest = text(flags + "--temperature 0");
  for (const char* const filter : {"--top-k 1", "--top-p 0", "--min-p 1"})
    EXPECT_EQ(text(flags + filter), likeliest) << filter;
  EXPECT_NE(text(flags + "--temperature 2"), likeliest);
}

TEST_F(SampleCommand, TakesARunOrOneOfItsCheckpoints) {
  EXPECT_EQ(text("--from run/checkpoints/step-3 --tokens 20"), text("--from run --tokens 20"));
}

TEST_F(SampleCommand, ListsItsFlags) {
  const std::string help = text("--help");
  for (const char* const flag :
       {"--from", "--prompt", "--tokens", "--temperature", "--top-k", "--top-p", "--min-p",
        "--repeat", "--seed", "--cache ", "--cache-dtype", "--mla", "--at-context", "--json"}) {
    EXPECT_NE(help.find(flag), std::string::npos) << flag;
  }
}

TEST_F(SampleCommand, RefusesNumbersOutOfRange) {
  for (const char* const flag :
       {"--tokens 0", "--tokens -5", "--temperature -1", "--temperature nan", "--top-k -1",
        "--top-p 2", "--min-p 1.5", "--repeat 0", "--seed -1", "--threads -1"}) {
    expect_refusal(kUsage, std::string("--from run ") + flag, {words(flag)[0], words(flag)[1]});
  }
}

TEST_F(SampleCommand, RefusesChoicesThatDoNotExist) {
  expect_refusal(kUsage, "--from run --mla both", {"--mla", "auto, expanded, absorbed", "'both'"});
  expect_refusal(kUsage, "--from run --cache maybe", {"--cache", "on, off", "'maybe'"});
  expect_refusal(kUsage, "--from run --cache-dtype f64",
                 {"--cache-dtype", "f32, f16, bf16, fp8, int8"});
  expect_refusal(kUsage, "--from run --at-context wait", {"--at-context", "slide, stop"});
  expect_refusal(kUsage, "--from run --colour red", {"--colour"});
  expect_refusal(kUsage, "--from run stray", {"'stray'"});
}

TEST_F(SampleCommand, RefusesPromptsThatTheModelCannotRead) {
  const auto refuses = [](int code, const std::string& prompt,
                          const std::vector<std::string>& names) {
    expect_refusal(code, "--from run --tokens 5", names, {"--prompt", prompt});
  };
  refuses(kUsage, "", {"--prompt", "empty"});
  refuses(kData, "16 Käse", {"--prompt", "'K' (U+004B)", "'ä' (U+00E4)", "vocabulary"});
  refuses(kData, "16\t", {"--prompt", "U+0009"});
  refuses(kData, "16 caf\xe9", {"--prompt", "UTF-8", "offset 6"});
}

TEST_F(SampleCommand, RefusesPromptsLongerThanAContextThatMayNotSlide) {
  expect_refusal(kUsage, "--from run --at-context stop",
                 {"--prompt", "17", "context holds 16", "--at-context slide"},
                 {"--prompt", "400 is a square.\n"});
}

TEST_F(SampleCommand, RefusesWhatIsNoRun) {
  expect_refusal(kUsage, "--tokens 5", {"--from", "headcount train"});
  expect_refusal(kUsage, "--from", {"from"});
  fs::create_directories(*folder_ / "empty/checkpoints");
  for (const char* const path : {"missing", "empty", "text.txt", "text.txt/part"})
    expect_refusal(kData, std::string("--from ") + path, {"'" + std::string(path) + "'", "run"});
  copy_run("bare");
  fs::remove_all(*folder_ / "bare/checkpoints");
  expect_refusal(kData, "--from bare", {"'bare' has no checkpoint yet"});
}

TEST_F(SampleCommand, RefusesDamagedWeights) {
  const std::string weights = folder_->contents("run/checkpoints/step-3/model.safetensors");
  int number = 0;
  for (const std::string& bytes :
       {std::string(), std::string(100, 'x'), weights.substr(0, weights.size() / 2),
        weights.substr(0, weights.size() - 1), weights + "x"}) {
    const std::string run = "damaged" + std::to_string(number++);
    const std::string file = copy_run(run) + "/model.safetensors";
    folder_->file(file, bytes);
    expect_refusal(kData, "--from " + run, {file, "damaged: copy or export it again"});
  }
  const std::string file = copy_run("weightless") + "/model.safetensors";
  fs::remove(*folder_ / file);
  expect_refusal(kData, "--from weightless", {file});
}

TEST_F(SampleCommand, RefusesDamagedConfigurations) {
  const std::string config = copy_run("unreadable") + "/config.json";
  for (const char* const bytes :
       {"", "{\"model_type\": ", "[]", "{}", "{\"model_type\": 3}", "{\"model_type\": \"llama\"}",
        "{\"model_type\": \"bert\", \"vocab_size\": 3}",
        "{\"model_type\": \"headcount\", \"vocab_size\": 3}",
        "{\"model_type\": \"headcount\", \"vocab_size\": 3, \"headcount\": {\"colour\": 1}}",
        "{\"model_type\": \"headcount\", \"vocab_size\": 3, \"headcount\": {\"heads\": 3}}"}) {
    folder_->file(config, bytes);
    expect_refusal(kData, "--from unreadable", {config});
  }
  fs::remove(*folder_ / config);
  expect_refusal(kData, "--from unreadable", {config});
  const std::string tokenizer = copy_run("untold") + "/tokenizer.json";
  for (const char* const bytes : {"", "{", "{}", "{\"model\": {\"vocab\": {\"ab\": 0}}}",
                                  "{\"model\": {\"vocab\": {\"a\": 1}}}"}) {
    folder_->file(tokenizer, bytes);
    expect_refusal(kData, "--from untold", {tokenizer});
  }
}

TEST_F(SampleCommand, NamesTheTensorAndBothShapesWhereConfigurationAndWeightsDisagree) {
  const json settings = json::parse(folder_->contents("run/checkpoints/step-3/config.json"));
  const std::string ffn = std::to_string(settings.at("intermediate_size").get<int>());
  const std::string text = folder_->contents("text.txt");
  const std::size_t symbols = std::set<char>(text.begin(), text.end()).size();
  const std::string vocabulary = std::to_string(symbols);

  copy_run_with_config("narrow", [](json& config) { config["hidden_size"] = 8; });
  expect_refusal(
      kData, "--from narrow",
      {"model.embed_tokens.weight", "[" + vocabulary + ",16]", "[" + vocabulary + ",8]"});
  copy_run_with_config("thin", [](json& config) { config["intermediate_size"] = 5; });
  expect_refusal(kData, "--from thin",
                 {"model.layers.0.mlp.gate_proj.weight", "[" + ffn + ",16]", "[5,16]"});
  copy_run_with_config("shared", [](json& config) { config["num_key_value_heads"] = 1; });
  expect_refusal(kData, "--from shared",
                 {"model.layers.0.self_attn.k_proj.weight", "[16,16]", "[8,16]"});
  copy_run_with_config("deep", [](json& config) { config["num_hidden_layers"] = 2; });
  expect_refusal(kData, "--from deep", {"model.layers.1.input_layernorm.weight", "missing"});
  copy_run_with_config("normed", [](json& config) {
    config["model_type"] = "qwen3";
    config.erase("mlp_bias");
  });
  expect_refusal(kData, "--from normed",
                 {"self_attn.q_norm.weight' is missing", "fox:qk-norm=on for fox"});
  copy_run_with_config("tied", [](json& config) { config["tie_word_embeddings"] = true; });
  expect_refusal(kData, "--from tied",
                 {"lm_head.weight differs from model.embed_tokens.weight", "tie_word_embeddings"});
  copy_run_with_config("short", [&](json& config) { config["vocab_size"] = symbols - 1; });
  json tokenizer = json::parse(folder_->contents("short/checkpoints/step-3/tokenizer.json"));
  std::erase_if(tokenizer["model"]["vocab"].get_ref<json::object_t&>(),
                [&](const auto& entry) { return entry.second == symbols - 1; });
  folder_->file("short/checkpoints/step-3/tokenizer.json", tokenizer.dump());
  expect_refusal(kData, "--from short",
                 {"model.embed_tokens.weight", "[" + vocabulary + ",16]",
                  "[" + std::to_string(symbols - 1) + ",16]"});
}

TEST_F(SampleCommand, SaysWhenTheFirstCheckpointOfARunComes) {
  for (const auto& [flags, first] : {std::pair("", "3"),
                                     {"--checkpoint-every 2", "2"},
                                     {"--eval-every 1", "1"},
                                     {"--eval-every 1 --checkpoint-every 0", "3"}}) {
    folder_->trained(std::string("--quiet --force --out begun ") + flags);
    fs::remove_all(*folder_ / "begun/checkpoints");
    const std::string why = "'begun' has no checkpoint yet; its first comes at step ";
    expect_refusal(kData, "--from begun", {why + first});
    headcount::expect_refusal(folder_->train("--init begun --out next"), kData,
                              {"--init: " + why + first}, flags);
  }
}

}  // namespace
}  // namespace headcount
