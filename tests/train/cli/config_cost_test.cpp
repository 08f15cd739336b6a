// label: unsanitized
// `headcount cost --config` as its users meet it. config_cache_test.cpp holds what it counts.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "train/run_program.h"

namespace headcount {
namespace {

using nlohmann::json;

class ConfigCost : public testing::Test {
 protected:
  ConfigCost() {
    std::filesystem::create_directory(folder_ / "model");
    folder_.file("model/config.json",
                 R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
                     "num_attention_heads": 32, "num_key_value_heads": 8,
                     "max_position_embeddings": 131072})");
  }
  // 16 GiB of weights beside the configuration.
  void add_weights() const {
    folder_.file("model/model.safetensors.index.json",
                 R"({"metadata": {"total_size": 17179869184}})");
  }
  std::string output(const std::string& flags) const {
    const ProgramResult result = folder_.done("cost " + flags);
    EXPECT_EQ(result.err, "") << flags;
    return result.out;
  }
  json table(const std::string& flags) const {
    return json::parse(output(flags + " --format json"));
  }
  // The row of the Llama at its first context.
  json llama(const std::string& flags) const {
    return table("--config model/config.json --context 1024 " + flags).at("contexts").at(0);
  }

  TrainFolder folder_;
};

TEST_F(ConfigCost, CountsWhatASequenceKeeps) {
  const std::string flags = " --context 4096,128k --batch 2";
  const json result = table("--config model/config.json" + flags);
  EXPECT_EQ(result.at("model_type"), "llama");
  EXPECT_EQ(result.at("cache_numbers").at("total"), 65'536 * 4096);
  const json& longest = result.at("contexts").at(1);
  EXPECT_EQ(longest.at("context"), 131'072);
  EXPECT_EQ(longest.at("cache_bytes"), 2 * 65'536LL * 131'072);
  EXPECT_EQ(longest.at("batch_bytes"), 4 * 65'536LL * 131'072);
  EXPECT_EQ(table("--config model" + flags), result);
  EXPECT_EQ(folder_.shell("\"$headcount\" cost --config - < model/config.json").out,
            output("--config model/config.json"));
}

TEST_F(ConfigCost, SaysWhatFitsBesideTheWeights) {
  EXPECT_NE(output("--config mamba-2.8b --memory 1GiB").find("sequence: any"), std::string::npos);
  add_weights();
  const std::string path = "--config model/config.json --context 1024 --memory ";
  // 8 GiB are left, a token takes 128 KiB; 2 GiB are left on each of two GPUs, 64 KiB there.
  for (const auto& [memory, longest, batch] :
       {std::tuple{"24GiB", 65'536, 64}, {"10GiB --shards 2", 32'768, 32}}) {
    const json result = table(path + memory);
    EXPECT_EQ(result.at("longest_context"), longest) << memory;
    EXPECT_EQ(result.at("contexts").at(0).at("batch_that_fits"), batch) << memory;
  }
  EXPECT_NE(output(path + "8GiB").find("the weights do not fit"), std::string::npos);
}

TEST_F(ConfigCost, ComparesOtherAttentionsTypesAndShards) {
  const json at = llama("--attention mha,mqa,mla512+64 --shards 16");
  const auto bytes = at.at("cache_bytes").get<std::int64_t>();
  EXPECT_EQ(at.at("if_mha"), 4 * bytes);
  EXPECT_EQ(at.at("if_mqa"), bytes / 8);
  EXPECT_EQ(at.at("if_mla512+64"), 1024 * 32 * (512 + 64) * 2);
  EXPECT_EQ(at.at("shard_bytes"), bytes / 8);  // 16 GPUs copy each of the 8 KV heads once
  // A scale of two bytes for each key and value of a head, in the table of attentions too.
  const json rounded = llama("--cache-dtype int8 --attention gqa8");
  EXPECT_EQ(rounded.at("cache_bytes"), 1024 * 32 * 2 * 8 * (128 + 2));
  EXPECT_EQ(rounded.at("if_gqa8"), rounded.at("cache_bytes"));
  const std::string groups = "--cache-dtype k=int4+v=int2 --cache-group 64 --cache-recent 24";
  EXPECT_EQ(llama(groups).at("cache_bytes"),
            32 * 8 * (1000 * ((64 + 4) + (32 + 4)) + 24 * 2 * 256));
  expect_parts(output("--config model " + groups),
               {"k 4 bits a number and 2 bytes a group of 64 (int4), v 2 bits a number and 2 bytes "
                "a group of 64 (int2), of the last 24 tokens 2 bytes a number (bf16)"});
}

TEST_F(ConfigCost, PrintsInEachFormat) {
  const std::string flags = "--config gemma-3-4b --context 4k,128k ", text = output(flags);
  expect_parts(text, {"gemma3_text, 34 layers", "window of 1024", "full attention", "131072"});
  EXPECT_EQ(output(flags + "--format text"), text);
  expect_parts(output(flags + "--format markdown"),
               {"|  layers  |  keep            |", "\n|    ---:  |  ---", "\n|   131072  |"});
  EXPECT_NE(output("--list").find("llama-3.1-405b"), std::string::npos);
  EXPECT_GE(table("--list").size(), 60);
  EXPECT_EQ(output("--list --format csv").substr(0, 22), "model,bytes_per_token,");
  EXPECT_NE(output("--preset gemma-3-27b --format markdown").find("5\\*gqa@1024/gqa"),
            std::string::npos);
}

// The page holds what its script draws: layers with the bytes of each part, and curves up to the
// context at which the memory is full.
TEST_F(ConfigCost, WritesAPage) {
  const auto figures = [&](const std::string& flags) {
    output(flags + " --report page.html");
    const std::string page = folder_.contents("page.html"), begin = R"(id="data">)";
    const auto at = page.find(begin) + begin.size();
    EXPECT_NE(page.find("KV cache of "), std::string::npos);
    return json::parse(page.substr(at, page.find("</script>", at) - at)).at(0).at("cost");
  };
  const json jamba = figures("--config jamba-v0.1 --context 4k --memory 1GiB --attention mha");
  double bytes = 0;
  for (const json& layer : jamba.at("caches").at(0).at("cache"))
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
  expect_parts(output("--config kimi-k2"), {"latents as published; engines that expand them"});
  const json k2 = table("--config kimi-k2");
  EXPECT_EQ(k2.at("numbers_per_token"), 61 * (512 + 64));
  EXPECT_EQ(k2.at("expanded_numbers_per_token"), 61 * 64 * (128 + 64 + 128));
  // Of Kimi Linear: a state of 32 heads of 128 x 128 and three inputs of convolutions, in float32;
  // rows of 576 numbers in bf16.
  EXPECT_EQ(table("--config kimi-linear-48b").at("state_context"),
            (4 * (32 * 128 * 128 + 9 * 32 * 128) + 1151) / 1152);
  expect_parts(output("--config kimi-linear-48b"), {"from a context of"});
}

}  // namespace
}  // namespace headcount
