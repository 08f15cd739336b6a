// label: unsanitized
// `headcount cost --config` as its users meet it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "train/cli/cost_command.h"

namespace headcount::cost_tables {
namespace {

class ConfigCost : public CostCommand {
 protected:
  // Path of a file with this content, beside which nothing else lies.
  std::string file(const std::string& text, const std::string& name = "config.json") const {
    const auto folder = folder_.path() / "model";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  }
  const std::string llama_ = R"({"model_type": "llama", "num_hidden_layers": 32,
      "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
      "max_position_embeddings": 131072})";
};

TEST_F(ConfigCost, CountsWhatASequenceKeeps) {
  const std::string path = file(llama_);
  const json result = table("--config " + path + " --context 4096,128k --batch 2");
  EXPECT_EQ(result.at("model_type"), "llama");
  EXPECT_EQ(result.at("cache_numbers").at("total"), 65'536 * 4096);
  const json& longest = result.at("contexts").at(1);
  EXPECT_EQ(longest.at("context"), 131'072);
  EXPECT_EQ(longest.at("cache_bytes"), 2 * 65'536LL * 131'072);
  EXPECT_EQ(longest.at("batch_bytes"), 2 * longest.at("cache_bytes").get<std::int64_t>());
  const std::string folder = std::filesystem::path(path).parent_path().string();
  EXPECT_EQ(table("--config " + folder + " --context 4096,128k --batch 2"), result);
}

TEST_F(ConfigCost, ReadsAConfigurationFromStandardInput) {
  const std::string path = file(llama_);
  const ProgramResult piped =
      run_shell("\"$headcount\" cost --config - < '" + path + "'", folder_.path());
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(piped.out, output("--config " + path));
}

TEST_F(ConfigCost, SaysWhatFitsBesideTheWeights) {
  const std::string path = file(llama_);
  file(R"({"metadata": {"total_size": 17179869184}})", "model.safetensors.index.json");
  const json result = table("--config " + path + " --context 1024 --memory 24GiB");
  // 8 GiB are left; a token takes 128 KiB.
  EXPECT_EQ(result.at("longest_context"), 65'536);
  EXPECT_EQ(result.at("contexts").at(0).at("batch_that_fits"), 64);
}

TEST_F(ConfigCost, SaysThatAConstantCacheFitsAnyContextAndThatWeightsDoNotFit) {
  EXPECT_NE(output("--config mamba-2.8b --memory 1GiB").find("sequence: any"), std::string::npos);
  const std::string path = file(llama_);
  file(R"({"metadata": {"total_size": 17179869184}})", "model.safetensors.index.json");
  EXPECT_NE(output("--config " + path + " --memory 8GiB").find("the weights do not fit"),
            std::string::npos);
}

// A scale of two bytes for each key and value of a head.
TEST_F(ConfigCost, CountsTheScalesOfInt8AsTheTableOfAttentionsDoes) {
  const json at =
      table("--config " + file(llama_) + " --context 1024 --cache-dtype int8 --attention gqa8")
          .at("contexts")
          .at(0);
  EXPECT_EQ(at.at("cache_bytes"), at.at("if_gqa8"));
  EXPECT_EQ(at.at("cache_bytes"), 1024 * 32 * 2 * 8 * (128 + 2));
}

// config_cache_test.cpp counts other types.
TEST_F(ConfigCost, CountsTypesOfPartsGroupsAndRecentTokens) {
  const std::string flags = "--config " + file(llama_) +
                            " --context 1024 --cache-dtype k=int4+v=int2 --cache-group 64 "
                            "--cache-recent 24";
  EXPECT_EQ(table(flags).at("contexts").at(0).at("cache_bytes").get<int>(),
            32 * 8 * (1000 * ((64 + 4) + (32 + 4)) + 24 * 2 * 256));
  EXPECT_NE(output(flags).find(
                "k 4 bits a number and 2 bytes a group of 64 (int4), v 2 bits a number and 2 bytes "
                "a group of 64 (int2), of the last 24 tokens 2 bytes a number (bf16)"),
            std::string::npos);
}

TEST_F(ConfigCost, ComparesOtherAttentionsAndShards) {
  const json at = table("--config " + file(llama_) +
                        " --context 1024 --attention mha,mqa,mla512+64 --shards 16")
                      .at("contexts")
                      .at(0);
  const auto bytes = at.at("cache_bytes").get<std::int64_t>();
  EXPECT_EQ(at.at("if_mha"), 4 * bytes);
  EXPECT_EQ(at.at("if_mqa"), bytes / 8);
  EXPECT_EQ(at.at("if_mla512+64"), 1024 * 32 * (512 + 64) * 2);
  EXPECT_EQ(at.at("shard_bytes"), bytes / 8);  // 16 GPUs copy each of the 8 KV heads once
}

TEST_F(ConfigCost, PrintsATableForPeople) {
  const std::string text = output("--config gemma-3-4b --context 128k");
  for (const char* words : {"gemma3_text, 34 layers", "window of 1024", "full attention", "131072"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  EXPECT_NE(output("--list").find("llama-3.1-405b"), std::string::npos);
}

TEST_F(ConfigCost, PrintsInEachFormat) {
  const std::string flags = "--config gemma-3-4b --context 4k,128k ";
  EXPECT_EQ(output(flags + "--format text"), output(flags));
  const std::string markdown = output(flags + "--format markdown");
  for (const char* line :
       {"|  layers  |  keep            |", "\n|    ---:  |  ---", "\n|   131072  |"})
    EXPECT_NE(markdown.find(line), std::string::npos) << line << "\n" << markdown;
  EXPECT_GE(json::parse(output("--list --format json")).size(), 60);
  EXPECT_EQ(output("--list --format csv").substr(0, 22), "model,bytes_per_token,");
  EXPECT_NE(output("--preset gemma-3-27b --format markdown").find("5\\*gqa@1024/gqa"),
            std::string::npos);
}

// The page holds what its script draws: layers with the bytes of each part, and curves up to the
// context at which the memory is full.
TEST_F(ConfigCost, WritesAPage) {
  const auto figures = [&](const std::string& flags) {
    output(flags + " --report " + (folder_ / "page.html").string());
    const std::string page = folder_.contents("page.html"), begin = R"(id="data">)";
    const auto at = page.find(begin) + begin.size();
    EXPECT_NE(page.find("KV cache of "), std::string::npos);
    return json::parse(page.substr(at, page.find("</script>", at) - at)).at(0).at("cost");
  };
  const json jamba = figures("--config jamba-v0.1 --context 4k --memory 1GiB --attention mha");
  const json& drawn = jamba.at("caches").at(0);
  double bytes = 0;
  for (const json& layer : drawn.at("cache"))
    for (const json& block : layer)
      bytes += block.at("bytes").get<double>() * block.at("heads").get<double>() *
               block.at("width").get<double>() * (block.contains("per_sequence") ? 1 : 4096);
  EXPECT_EQ(bytes,
            table("--config jamba-v0.1 --context 4k").at("contexts").at(0).at("cache_bytes"));
  for (const json& each : jamba.at("caches"))
    EXPECT_GE(each.at("points").back().at(1), jamba.at("room").at("bytes")) << each.at("spec");
  const json llama = figures("--preset llama-3-8b");
  EXPECT_EQ(llama.at("caches").size(), 15);
  EXPECT_EQ(llama.at("caches").at(2).at("cache").size(), 32);
}

TEST_F(ConfigCost, SaysBothNumbersOfLatentsAndWhenStatesPay) {
  const std::string latents = output("--config kimi-k2");
  EXPECT_NE(latents.find("latents as published; engines that expand them"), std::string::npos);
  const json k2 = table("--config kimi-k2");
  EXPECT_EQ(k2.at("numbers_per_token"), 61 * (512 + 64));
  EXPECT_EQ(k2.at("expanded_numbers_per_token"), 61 * 64 * (128 + 64 + 128));
  // Of Kimi Linear: a state of 32 heads of 128 x 128 and three inputs of convolutions, in float32;
  // rows of 576 numbers in bf16.
  const json linear = table("--config kimi-linear-48b");
  EXPECT_EQ(linear.at("state_context"), (4 * (32 * 128 * 128 + 9 * 32 * 128) + 1151) / 1152);
  EXPECT_NE(output("--config kimi-linear-48b").find("from a context of"), std::string::npos);
}

TEST_F(ConfigCost, SharesMemoryAndWeightsOutToGpus) {
  const std::string path = file(llama_);
  file(R"({"metadata": {"total_size": 17179869184}})", "model.safetensors.index.json");
  const json result = table("--config " + path + " --context 1024 --memory 10GiB --shards 2");
  // 2 GiB are left on each; a token takes 64 KiB there.
  EXPECT_EQ(result.at("longest_context"), 32'768);
  EXPECT_EQ(result.at("contexts").at(0).at("batch_that_fits"), 32);
}

TEST_F(ConfigCost, RefusesWhatItCannotReadInOneLine) {
  expect_refusal(3, "--config " + file(R"({"model_type": "lama"})"), {"config", "lama", "llama"});
  expect_refusal(3, "--config " + file("{"), {"config.json"});
  expect_refusal(3, "--config missing.json", {"missing.json"});
  expect_refusal(3, "--config llama-3.1-406b", {"llama-3.1-405b"});
  const std::string llama = file(llama_);
  expect_refusal(2, "--config " + llama + " --memory 24q", {"memory", "24GiB"});
  expect_refusal(2, "--config " + llama + " --cache-dtype latent=int4", {"'latent'", "k, v"});
  expect_refusal(2, "--config " + llama + " --cache-dtype int4 --cache-group 48", {"32 does"});
  expect_refusal(2, "--config " + llama + " --cache-group 32",
                 {"--cache-group", "no effect", "bf16"});
  expect_refusal(2, "--config " + llama + " --cache-dtype int4 --cache-recent 9 --attention mha",
                 {"--cache-recent", "--attention"});
  expect_refusal(2, "--config " + llama + " --context 1k,x", {"context"});
  expect_refusal(2, "--config " + llama + " --preset llama-3-8b", {"preset"});
  expect_refusal(2, "--config " + llama + " --heads 4", {"heads", "config"});
  expect_refusal(2, "--list --config llama-3-8b", {"list", "config"});
  expect_refusal(2, "--config " + llama + " --format xml", {"format", "markdown", "xml"});
  expect_refusal(1, "--config " + llama + " --report nowhere/page.html", {"nowhere"});
  expect_refusal(2, "--memory 24GiB", {"config"});
}

}  // namespace
}  // namespace headcount::cost_tables
