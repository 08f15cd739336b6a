// label: unsanitized
// `headcount cost` as its users meet it: tables as JSON, CSV and text, and the sizes that it takes
// from runs, well-known models and configurations. tests/models holds the figures against published
// ones.
#include <algorithm>
#include <tuple>

#include "autograd/base/text.h"
#include "train/run_program.h"
#include "train/table.h"

namespace headcount {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

const std::string kNarrow = "--layers 1 --dim 16 --heads 4 --context 16";

// Runs, and the configuration of a Llama, in `heavy` with 16 GiB of weights beside it.
class CostCommand : public RunsOfASuite<CostCommand> {
 public:
  static constexpr const char* kCommand = "cost";
  static void prepare() {
    train("latents", "--steps 1 --attention mla --layers 2 --kv-rank 6 --rope-dim 4 --q-rank 5");
    for (const std::string attention : {"mha", "v4", "mfa8"})
      train(attention, "--steps 1 " + kNarrow + " --attention " + attention);
    for (const std::string folder : {"llama", "heavy"})
      folder_->file(folder + "/config.json",
                    R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
                        "num_attention_heads": 32, "num_key_value_heads": 8,
                        "max_position_embeddings": 131072})");
    folder_->file("heavy/model.safetensors.index.json",
                  R"({"metadata": {"total_size": 17179869184}})");
  }

 protected:
  static Names names(const json& table) {
    Names all;
    for (const json& row : table.at("rows")) all.push_back(row.at("attention"));
    return all;
  }
  static json row(const json& table, const std::string& attention) {
    const Names all = names(table);
    const auto at = std::ranges::find(all, attention) - all.begin();
    return table.at("rows").at(static_cast<std::size_t>(at));
  }
  // The row of the Llama at its first context.
  static json llama(const std::string& flags) {
    return object("--config llama/config.json --context 1024 " + flags).at("contexts").at(0);
  }
};

TEST_F(CostCommand, HasTheDocumentedKeysInJsonAndPrintsItsRowsAsCsvAndAsATable) {
  const std::string sizes =
      "--dim 8192 --heads 64 --head-dim 128 --kv-heads 8 --kv-rank 512 --rope-dim 0 --context "
      "131072 ";
  const auto table = nlohmann::ordered_json::parse(text(sizes + "--format json"));
  expect_values(table, {{"cache_dtype", "f32"},
                        {"context", 131072},
                        {"dtype_bytes", 4},
                        {"state_dtype_bytes", 4},
                        {"layers", 4}});
  for (const auto& row : table.at("rows")) {
    for (const char* key :
         {"params_per_layer", "linear_macs_per_token_per_layer", "prefill_attention_macs_per_layer",
          "decode_attention_macs_per_layer", "cache_elements_per_token_per_layer",
          "cache_elements_per_layer", "cache_bytes", "cache_bytes_at_4096", "cache_bytes_at_131072",
          "cache_bytes_at_1048576"})
      EXPECT_TRUE(row.at(key).is_number_integer()) << key;
  }
  EXPECT_EQ(text(sizes + "--format csv"), data_table(table.at("rows"), Format::csv));
  const std::string wide = text(sizes + "--wide");
  for (const std::string& name : names(table)) expect_parts(wide, {"\n" + name + " "});
  expect_parts(wide, {"4 layers", "8192", "131072", "32 GiB"});
}

TEST_F(CostCommand, SaysWhatOfACacheIsKeptInWhichType) {
  for (const auto& [dtype, said] : {std::pair{"f32", "4 bytes a number (f32)"},
                                    {"f16", "2 bytes a number (f16)"},
                                    {"int8", "1 byte a number and 2 a row (int8)"}})
    expect_parts(text("--cache-dtype " + std::string(dtype)),
                 {"Cached rows of tokens take " + std::string(said) + ", states 4 (f32).\n"});
  expect_parts(
      call("--layers 2 --dim 64 --heads 4 --context 64 --window 4 --compress 8 --wide").out,
      {"note: hca: a --window of 4 is shorter than an open block of 8 tokens"});
}

TEST_F(CostCommand, ShowsUsualAttentionsAndTheOneAskedFor) {
  const std::string fox = text("--attention fox");
  expect_parts(fox, {"\nmha ", "\nmla-merged ", "\nfox ",
                     "\nother attentions, see --wide: mfa, gta, dsa, tpa, latent-bias, v4,"});
  expect_no_parts(fox, {"\nmfa "});
  expect_parts(text("--attention mla16+4/dsa16+4 --layers 2"),
               {"\nmla16+4/dsa16+4-absorbed ", "\nmla16+4/dsa16+4-merged "});
}

TEST_F(CostCommand, TakesTheSizesOfARun) {
  const json table = object("--from latents");
  expect_values(table, {{"layers", 2}, {"context", 16}});
  EXPECT_EQ(row(table, "mha").at("params_per_layer"), 4 * 16 * 16);
  // q_a, q_b, kv_a, kv_b and output projection, two norms; heads are 8 wide.
  const int weights = 16 * 5 + 5 * 2 * 12 + 16 * 10 + 6 * 2 * 16 + 16 * 16 + 5 + 6;
  expect_values(row(table, "mla"),
                {{"cache_bytes", 2 * (6 + 4) * 16 * 4}, {"params_per_layer", weights}});
  const json changed = object("--kv-rank 8 --from latents --context 99");
  EXPECT_EQ(changed.at("context"), 99);
  EXPECT_EQ(row(changed, "mla").at("cache_elements_per_token_per_layer"), 8 + 4);
}

// What a run's attention settled, such as wide heads of v4 or the number in mfa8, is not what
// others would have. A width of heads that was chosen beside the attention is.
TEST_F(CostCommand, GivesOtherAttentionsThanThatOfARunTheirOwnSizes) {
  const json plain = object(kNarrow), narrow = object(kNarrow + " --head-dim 12");
  for (const std::string run : {"mha", "v4", "mfa8"}) {
    const json of_run = object("--from " + run);
    for (const char* other : {"mqa", "mfa", "hca"})
      EXPECT_EQ(row(of_run, other), row(plain, other)) << run;
    EXPECT_EQ(row(object("--head-dim 12 --from " + run), "mqa"), row(narrow, "mqa"));
  }
  EXPECT_EQ(row(object("--from mfa8"), "mfa").at("cache_elements_per_token_per_layer"), 2 * 8);
}

TEST_F(CostCommand, MarksTheAttentionOfAModelOrRunUnlessFlagsChangeItsSizes) {
  for (const auto& [flags, marked] :
       {std::pair{"--preset llama-3-8b", Names{"gqa"}},
        {"--preset deepseek-v3", Names{"mla-absorbed"}},
        {"--preset kimi-linear-48b", Names{"3*kda/mla/3*...2*kda/mla-absorbed"}},
        {"--from mha --context 99", Names{"mha"}},
        {"--from mha --head-dim 6 --rope-dim 6", Names{}},
        {"--preset llama-3-8b --attention gqa2", Names{}}}) {
    Names found;
    for (const std::string& line : lines_of(text(flags))) {
      if (line.ends_with("as published") || line.ends_with("<- the run"))
        found.push_back(line.substr(0, line.find(' ')));
    }
    EXPECT_EQ(found, marked) << flags;
  }
}

TEST_F(CostCommand, GivesTheMeanOfLayersThatAreNotAlike) {
  const auto pattern = [](const std::string& layers) {
    return object("--attention mqa/share/mqa --dim 16 --heads 2 --layers " + layers)["rows"].back();
  };
  // q and o of all layers, k and v of three; each is a number of 16 x 8 or 16 x 16.
  EXPECT_EQ(pattern("4").at("params_per_layer"), 16 * 16 * 2 + 3 * 2 * 16 * 8 / 4);
  EXPECT_EQ(pattern("4").at("cache_elements_per_token_per_layer"), 3 * 2 * 8 / 4);
  EXPECT_EQ(pattern("5").at("cache_elements_per_token_per_layer"), 3 * 2 * 8 / 5.0);
}

TEST_F(CostCommand, LeavesOutAnAttentionThatDoesNotFitAndSaysWhy) {
  const ProgramResult result = call("--dim 7 --heads 7 --head-dim 4 --format json");
  Names expected = names(object(""));
  for (const std::string name : {"gqa", "gta"}) {
    expect_parts(result.err, {"left out " + name + ": --attention " + name + " has by default"});
    std::erase(expected, name);
  }
  EXPECT_EQ(names(json::parse(result.out)), expected);
}

TEST_F(CostCommand, TablesFitTheTerminalUnlessWideOnesAreWanted) {
  const std::string usual = text("--preset deepseek-v3");
  for (const std::string& line : lines_of(usual))
    EXPECT_TRUE(line.starts_with("note: ") || character_count(line) <= 100) << line;
  expect_parts(usual, {"left out, see --wide: expansion MACs/token"});
  expect_no_parts(text("--preset deepseek-v3 --wide"), {"left out"});
}

TEST_F(CostCommand, OfAConfigurationCountsWhatASequenceKeeps) {
  const std::string flags = " --context 4096,128k --batch 2";
  const json result = object("--config llama/config.json" + flags);
  EXPECT_EQ(result.at("model_type"), "llama");
  EXPECT_EQ(result.at("cache_numbers").at("total"), 65'536 * 4096);
  expect_values(result.at("contexts").at(1), {{"context", 131'072},
                                              {"cache_bytes", 2 * 65'536LL * 131'072},
                                              {"batch_bytes", 4 * 65'536LL * 131'072}});
  EXPECT_EQ(object("--config llama" + flags), result);
  EXPECT_EQ(folder_->shell("headcount cost --config - < llama/config.json").out,
            text("--config llama/config.json"));
}

TEST_F(CostCommand, OfAConfigurationSaysWhatFitsBesideTheWeights) {
  expect_parts(text("--config mamba-2.8b --memory 1GiB"), {"sequence: any"});
  const std::string path = "--config heavy/config.json --context 1024 --memory ";
  // 8 GiB are left, a token takes 128 KiB; 2 GiB are left on each of two GPUs, 64 KiB there.
  for (const auto& [memory, longest, batch] :
       {std::tuple{"24GiB", 65'536, 64}, {"10GiB --shards 2", 32'768, 32}}) {
    const json result = object(path + memory);
    EXPECT_EQ(result.at("longest_context"), longest) << memory;
    EXPECT_EQ(result.at("contexts").at(0).at("batch_that_fits"), batch) << memory;
  }
  expect_parts(text(path + "8GiB"), {"the weights do not fit"});
}

TEST_F(CostCommand, OfAConfigurationComparesOtherAttentionsTypesAndShards) {
  const json at = llama("--attention mha,mqa,mla512+64 --shards 16");
  const auto bytes = at.at("cache_bytes").get<std::int64_t>();
  expect_values(at, {{"if_mha", 4 * bytes},
                     {"if_mqa", bytes / 8},
                     {"if_mla512+64", 1024 * 32 * (512 + 64) * 2},
                     {"shard_bytes", bytes / 8}});  // 16 GPUs copy each of the 8 KV heads once
  // A scale of two bytes for each key and value of a head, in the table of attentions too.
  const int rounded = 1024 * 32 * 2 * 8 * (128 + 2);
  expect_values(llama("--cache-dtype int8 --attention gqa8"),
                {{"cache_bytes", rounded}, {"if_gqa8", rounded}});
  const std::string groups = "--cache-dtype k=int4+v=int2 --cache-group 64 --cache-recent 24";
  EXPECT_EQ(llama(groups).at("cache_bytes"),
            32 * 8 * (1000 * ((64 + 4) + (32 + 4)) + 24 * 2 * 256));
  expect_parts(text("--config llama " + groups),
               {"k 4 bits a number and 2 bytes a group of 64 (int4), v 2 bits"});
}

TEST_F(CostCommand, PrintsModelsInEachFormatAndListsThem) {
  const std::string flags = "--config gemma-3-4b --context 4k,128k ";
  expect_parts(text(flags),
               {"gemma3_text, 34 layers", "window of 1024", "full attention", "131072"});
  expect_parts(text(flags + "--format markdown"),
               {"|  layers  |  keep            |", "\n|    ---:  |  ---", "\n|   131072  |"});
  expect_parts(text("--preset gemma-3-27b --format markdown"), {"5\\*gqa@1024/gqa"});
  expect_parts(text("--list"), {"llama-3.1-405b"});
  EXPECT_GE(object("--list").size(), 60);
  EXPECT_TRUE(text("--list --format csv").starts_with("model,bytes_per_token,"));
}

// The page holds what its script draws: layers with the bytes of each part, and curves up to the
// context at which the memory is full.
TEST_F(CostCommand, WritesAPage) {
  const std::string jamba = "--config jamba-v0.1 --context 4k ";
  text(jamba + "--memory 1GiB --attention mha --report page.html");
  const std::string page = folder_->contents("page.html"), begin = R"(id="data">)";
  const auto at = page.find(begin) + begin.size();
  expect_parts(page, {"KV cache of "});
  const json figures =
      json::parse(page.substr(at, page.find("</script>", at) - at)).at(0).at("cost");
  double bytes = 0;
  for (const json& layer : figures.at("caches").at(0).at("cache"))
    for (const json& block : layer)
      bytes += block.at("bytes").get<double>() * block.at("heads").get<double>() *
               block.at("width").get<double>() * (block.contains("per_sequence") ? 1 : 4096);
  EXPECT_EQ(bytes, object(jamba).at("contexts").at(0).at("cache_bytes"));
  for (const json& each : figures.at("caches"))
    EXPECT_GE(each.at("points").back().at(1), figures.at("room").at("bytes")) << each.at("spec");
  text("--preset llama-3-8b --report page.html");
}

TEST_F(CostCommand, SaysBothNumbersOfLatentsAndWhenStatesPay) {
  expect_parts(text("--config kimi-k2"), {"latents as published; engines that expand them"});
  expect_values(object("--config kimi-k2"),
                {{"numbers_per_token", 61 * (512 + 64)},
                 {"expanded_numbers_per_token", 61 * 64 * (128 + 64 + 128)}});
  // Kimi Linear has a state of 32 heads of 128 x 128 and three inputs of convolutions, in float32;
  // rows of 576 numbers in bf16.
  EXPECT_EQ(object("--config kimi-linear-48b").at("state_context"),
            (4 * (32 * 128 * 128 + 9 * 32 * 128) + 1151) / 1152);
  expect_parts(text("--config kimi-linear-48b"), {"from a context of"});
}

}  // namespace
}  // namespace headcount
