// label: unsanitized
// `headcount cost` as its users meet it: sentences and a table, as JSON, CSV and text, on settings,
// runs, released models and configurations. tests/models holds the figures against published ones.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <tuple>

#include "autograd/base/text.h"
#include "train/run_program.h"
#include "train/show/table.h"

namespace headcount {
namespace {

using nlohmann::json;
using Names = std::vector<std::string>;

const std::string kNarrow = "--layers 1 --dim 16 --heads 4 --context 16";

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// Runs, and the configuration of a Llama, in `heavy` with 16 GiB of weights beside it.
class CostCommand : public RunsOfASuite<CostCommand> {
 public:
  static constexpr const char* kCommand = "cost";
  static void prepare() {
    train("latents", "--steps 1 --attention mla --layers 2 --kv-rank 6 --rope-dim 4 --q-rank 5");
    train("gated", "--steps 1 --layers 2 --attention delta/gqa2 --gate on --heads 4");
    for (const std::string attention : {"mha", "v4", "mfa8"})
      train(attention, "--steps 1 " + kNarrow + " --attention " + attention);
    for (const std::string folder : {"llama", "heavy", "light", "broken"})
      folder_->file(folder + "/config.json",
                    R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
                        "num_attention_heads": 32, "num_key_value_heads": 8,
                        "max_position_embeddings": 131072})");
    folder_->file("heavy/model.safetensors.index.json",
                  R"({"metadata": {"total_size": 17179869184}})");
    folder_->file("broken/model.safetensors.index.json", "{");
    folder_->file("model.safetensors", std::string(2000, ' '));
  }

 protected:
  static Names names(const json& table) {
    Names all;
    for (const json& row : table.at("rows")) all.push_back(row.at("name"));
    return all;
  }
  static json row(const json& table, const std::string& name) {
    const Names all = names(table);
    const auto at = std::ranges::find(all, name) - all.begin();
    return table.at("rows").at(static_cast<std::size_t>(at));
  }
  // Bytes of each row at `context` tokens.
  static std::vector<std::int64_t> bytes(const std::string& flags, const std::string& context) {
    std::vector<std::int64_t> all;
    const json table = object(flags + " --context " + context);
    for (const json& row : table.at("rows")) all.push_back(row.at("cache_bytes_at_" + context));
    return all;
  }
};

TEST_F(CostCommand, HasTheDocumentedKeysInJsonAndPrintsItsRowsAsCsvAndAsATable) {
  const std::string sizes =
      "--dim 8192 --heads 64 --head-dim 128 --kv-heads 8 --kv-rank 512 --rope-dim 0 --context "
      "4096,131072 ";
  const auto table = nlohmann::ordered_json::parse(text(sizes + "--format json"));
  expect_values(
      table,
      {{"cache_dtype", "f32"}, {"contexts", {4096, 131072}}, {"macs_at", 131072}, {"layers", 4}});
  for (const auto& row : table.at("rows")) {
    for (const char* key :
         {"params_per_layer", "linear_macs_per_token_per_layer", "prefill_attention_macs_per_layer",
          "decode_attention_macs_per_layer", "cache_bytes_at_4096", "cache_bytes_at_131072"})
      EXPECT_TRUE(row.at(key).is_number_integer()) << key;
  }
  EXPECT_EQ(text(sizes + "--format csv"), data_table(table.at("rows"), Format::csv));
  const std::string wide = text(sizes + "--wide");
  for (const std::string& name : names(table)) expect_parts(wide, {"\n" + name + " "});
  expect_parts(wide, {"4 layers", "131072 tokens", "32 GiB"});
}

// What engines log, and the sum that gives it.
TEST_F(CostCommand, SaysTheBytesOfASequenceAndOfATokenAndTheirTerms) {
  for (const auto& [flags, parts] : std::map<std::string, Names>{
           {"--config llama-3.1-8b",
            {"llama-3.1-8b (llama), 32 layers: 131,072 B a token\n",
             "  full attention: 32 layers x 2,048 numbers x 2 B = 131,072 B a token\n"}},
           {"--config llama-3.1-8b --cache-dtype k=int8+v=bf16",
            {"  full attention, k: 32 layers x 8 rows of 128 numbers and scales x 130 B = ",
             "  full attention, v: 32 layers x 1,024 numbers x 2 B = "}},
           {"--config gpt-oss-20b",
            {": 49,152 B a token until 128, then 24,576 B a token\n",
             "window of 128: 12 layers x 1,024 numbers x 2 B = 24,576 B a token until 128\n"}},
           {"--config jamba-v0.1",
            {": 16.62 MiB + 16,384 B a token\n",
             "state: 28 layers x 155,648 numbers x 4 B = 17,432,576 B a sequence\n"}},
           {"--config mamba-2.8b", {"64 layers: 23.75 MiB a sequence\n"}},
           {"--config deepseek-v3", {"latent: 61 layers x 576 numbers x 2 B = 70,272 B a token"}},
           {"--config deepseek-v4", {"20 layers x 512 numbers x 2 B / 128 tokens = 160 B a token"}},
           {"--config llama --cache-dtype int8",
            {"32 layers x 16 rows of 128 numbers and scales x 130 B = 66,560 B a token"}},
           {"--config llama --cache-dtype k=int4+v=int2 --cache-group 64 --cache-recent 24",
            {": 131,072 B a token until 24, then 26,624 B a token\n",
             "full attention, k: 32 layers x 1,024 numbers x 2 B = 65,536 B a token until 24\n",
             "32 layers x 8 rows of 128 numbers and scales x 68 B = 17,408 B a token after 24\n"}},
           {"--config llama --cache-dtype int4+layer1=bf16+layers31-32=int8",
            {": 38,880 B a token\n", "1 layer x 2,048 numbers x 2 B = 4,096 B a token\n",
             "29 layers x 16 rows of 128 numbers and scales x 66 B = 30,624 B a token\n",
             "2 layers x 16 rows of 128 numbers and scales x 130 B = 4,160 B a token\n"}},
           {"--attention gqa4 --layers 1 --canon B --dim 64 --heads 4",
            {"gqa4: 1 layer x ", "gqa4, convolutions: 1 layer x "}},
           {"--attention mqa --layers 2", {"mqa, 2 layers: 512 B a token\n"}}})
    expect_parts(text(flags), parts);
  const json law = object("--config gpt-oss-20b");
  EXPECT_EQ(law.at("bytes_per_token"),
            json::parse(R"([{"until": 128, "bytes": 49152}, {"until": null, "bytes": 24576}])"));
  expect_values(law.at("terms").at(0), {{"layers", 12}, {"numbers", 1024}, {"until", 128}});
  EXPECT_EQ(object("--config jamba-v0.1").at("bytes_per_sequence"), 28 * 155'648 * 4);
}

TEST_F(CostCommand, ListsTheAttentionsThatAreAskedFor) {
  EXPECT_EQ(names(object("--attention mqa,gqa2,mqa/share")), (Names{"mqa", "gqa2", "mqa/share"}));
  EXPECT_EQ(names(object("--attention mla16+4/dsa16+4 --layers 2")),
            (Names{"mla16+4/dsa16+4", "mla16+4/dsa16+4-absorbed", "mla16+4/dsa16+4-merged"}));
  expect_parts(
      call("--layers 2 --dim 64 --heads 4 --context 64 --window 4 --compress 8 --wide").out,
      {"note: hca, csa: a --window of 4 is shorter than an open block of 8 tokens"});
}

TEST_F(CostCommand, TakesTheSizesOfARun) {
  const json table = object("--from latents");
  expect_values(table, {{"layers", 2}, {"macs_at", 16}});
  const std::string word = "mla6+4:q-rank=5";
  EXPECT_EQ(names(table).front(), word);
  EXPECT_EQ(std::ranges::count(names(table), "mla"), 0);
  EXPECT_EQ(row(table, "mha").at("params_per_layer"), 4 * 16 * 16);
  // q_a, q_b, kv_a, kv_b and output projection, two norms; heads are 8 wide.
  const int weights = 16 * 5 + 5 * 2 * 12 + 16 * 10 + 6 * 2 * 16 + 16 * 16 + 5 + 6;
  expect_values(row(table, word),
                {{"cache_bytes_at_16", 2 * (6 + 4) * 16 * 4}, {"params_per_layer", weights}});
  expect_parts(call("--from latents --heads 4").err,
               {"--heads 4 is not that of the run; leave --from out"});
  const json changed = object("--kv-rank 8 --from latents --context 99");
  EXPECT_EQ(changed.at("macs_at"), 99);
  EXPECT_EQ(row(changed, "mla8+4:q-rank=5").at("cache_elements_per_token_per_layer"), 8 + 4);
  EXPECT_EQ(names(object("--from latents --attention mha")),
            (Names{word, word + "-absorbed", word + "-merged", "mha"}));
}

// What a run's attention settled, such as wide heads of v4 or the number in mfa8, is not what
// others would have. A width of heads that was chosen beside the attention is.
TEST_F(CostCommand, GivesOtherAttentionsThanThatOfARunTheirOwnSizes) {
  const json plain = object(kNarrow), narrow = object(kNarrow + " --head-dim 12");
  for (const std::string run : {"mha", "v4", "mfa8"}) {
    const json of_run = object("--context 16 --from " + run);
    for (const std::string other : {"mqa", "mfa", "hca"}) {
      if (run.starts_with(other)) continue;
      EXPECT_EQ(row(of_run, other), row(plain, other)) << run;
    }
    EXPECT_EQ(row(object("--context 16 --head-dim 12 --from " + run), "mqa"), row(narrow, "mqa"));
  }
  EXPECT_EQ(row(object("--from mfa8"), "mfa8").at("cache_elements_per_token_per_layer"), 2 * 8);
  // Gates of a pattern are beside scores, which a state has not.
  const std::string sizes = "--layers 2 --dim 16 --heads 4 --context 16";
  const json gated = object("--context 16 --from gated");
  EXPECT_EQ(row(gated, "delta"), row(object(sizes), "delta"));
  EXPECT_EQ(row(gated, "gqa"), row(object(sizes + " --gate on"), "gqa"));
  EXPECT_EQ(row(object("--from latents --attention mla8+4"), "mla8+4").at("params_per_layer"),
            row(object("--from latents --kv-rank 8"), "mla8+4:q-rank=5").at("params_per_layer"));
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
  for (const std::string name : {"gqa", "gta", "bsa"}) {
    expect_parts(result.err, {"left out " + name + ": --attention " + name + " has by default"});
    std::erase(expected, name);
  }
  EXPECT_EQ(names(json::parse(result.out)), expected);
}

TEST_F(CostCommand, TablesFitTheTerminalUnlessWideOnesAreWanted) {
  const std::string usual = text("--config deepseek-v3 --attention mha,mqa --memory 8000GiB");
  for (const std::string& line : lines_of(usual)) EXPECT_LE(character_count(line), 100u) << line;
  expect_parts(
      usual, {"sequences  sequences\n", "left out, see --wide: attention MACs of prefill; linear ",
              "; numbers/token; ", "expansion MACs/token; sequences of 4 k\n"});
  expect_no_parts(text("--config deepseek-v3 --wide"), {"left out"});
}

TEST_F(CostCommand, OfAConfigurationCountsWhatASequenceKeeps) {
  const std::string flags = " --context 4096,128k --batch 2";
  const json result = object("--config llama/config.json" + flags);
  EXPECT_EQ(result.at("model_type"), "llama");
  expect_values(result.at("rows").at(0), {{"cache_bytes_per_token", 131'072},
                                          {"cache_bytes_at_4096", kGiB},
                                          {"cache_bytes_at_131072", 32 * kGiB}});
  EXPECT_EQ(object("--config llama" + flags), result);
  EXPECT_EQ(folder_->shell("headcount cost --config - < llama/config.json").out,
            text("--config llama/config.json"));
}

TEST_F(CostCommand, SaysWhatFitsIntoMemoryBesideTheWeights) {
  expect_parts(
      text("--config mamba-2.8b --memory 1GiB"),
      {"weights not counted", ", at most:\n  one sequence of any number of tokens, 43 of 4096"});
  const std::string path = "--config heavy/config.json --context 1024 --memory ";
  // 8 GiB are left, a token takes 128 KiB; 2 GiB are left on each of two GPUs, 64 KiB there.
  for (const auto& [memory, longest, many] : {std::tuple{"24GiB", 65'536, 64},
                                              {"10GiB --shards 2", 32'768, 32},
                                              {"24GiB --batch 4", 16'384, 64}}) {
    const json at = object(path + memory).at("rows").at(0);
    expect_values(at, {{"longest_context", longest}, {"sequences_of_1024", many}});
  }
  expect_parts(text(path + "24GiB"), {"\n24 GiB of memory, 16 GiB of it for weights:\n"
                                      "  one sequence of up to 65,536 tokens, 64 of 1024\n"});
  expect_parts(text(path + "8GiB"), {"which weights of 16 GiB do not fit"});
  expect_parts(text(path + "80GiB"), {"524,288 tokens (the model has 131,072 positions), "});
  expect_parts(text("--list --memory 24GiB"), {"\n24 GiB of memory, weights not counted ("});
  EXPECT_EQ(object(path + "h100").at("memory_bytes"), std::int64_t{81559} << 20);
  // Each row has its answer.
  EXPECT_EQ(object(path + "24GiB --attention mqa").at("rows").at(1).at("longest_context"), 524'288);
}

TEST_F(CostCommand, CountsWeightsThatAModelIsLoadedFromAndNoOthers) {
  const auto weights = [](const std::string& config) {
    return object("--config " + config + " --memory 24GiB").at("weight_bytes");
  };
  EXPECT_EQ(weights("llama-3.1-8b"), json());  // in a folder with other files
  EXPECT_EQ(weights("light"), json());
  for (const char* other : {"consolidated.00", "adapter_model", "optimizer"})
    folder_->file(std::string("light/") + other + ".safetensors", std::string(5000, ' '));
  EXPECT_EQ(weights("light"), json());
  const auto reason = [](const std::string& part) {
    expect_parts(text("--config light --memory 24GiB"), {"note: memory is left out: ", part});
  };
  folder_->file("light/model-00001-of-00002.safetensors", std::string(3000, ' '));
  reason("parts of the weights are missing beside light/model-00001-of-00002.safetensors");
  const std::string second = "light/model-00002-of-00002.safetensors";
  folder_->file(second, std::string(4000, ' '));
  EXPECT_EQ(weights("light"), 7000);
  folder_->file(second, "version https://git-lfs.github.com/spec/v1\nsize 5000000\n");
  EXPECT_EQ(weights("light"), json());
  folder_->file("light/model.safetensors.index.json",
                R"({"metadata": {"total_size": 9000},
                    "weight_map": {"a": "model-00001-of-00002.safetensors"}})");
  EXPECT_EQ(weights("light"), 3000);
  for (const char* other : {"[]", R"({"metadata": [9000]})"}) {
    folder_->file("light/model.safetensors.index.json", other);
    const json made = object("--config light --memory 24GiB");
    EXPECT_EQ(made.value("weight_bytes", json()), json()) << other;
  }
  const std::string index = "light/model.safetensors.index.json";
  folder_->file(index, "{}");
  reason(index + " names no files");
  std::filesystem::remove(*folder_ / index);
  folder_->file("light/model.safetensors", std::string(8000, ' '));  // beside its parts
  EXPECT_EQ(weights("light"), 8000);
  // A file that cannot be read loses one answer.
  const std::string broken = "--config broken --context 1024 ";
  expect_parts(text(broken + "--memory 24GiB"),
               {"131,072 B a token", "note: memory is left out: broken/model.safetensors.index"});
  expect_no_parts(text(broken), {"memory"});
}

TEST_F(CostCommand, SharesAllRowsAndCurvesOut) {
  const std::string flags = "--config llama --attention gqa8,mla512+64";
  const auto whole = bytes(flags, "1024"), eighth = bytes(flags + " --shards 8", "1024");
  EXPECT_EQ(eighth, (std::vector{whole[0] / 8, whole[1] / 8, whole[2]}));
  EXPECT_EQ(bytes("--config llama --shards 16", "1024").front(), whole[0] / 8);  // copies of heads
  expect_parts(text(flags + " --shards 8"), {": 16,384 B a token", "on each of 8 GPUs"});
  expect_parts(text("--config llama-3-8b --shards 3"),
               {"note: 8 KV heads are not shared out evenly: 3 are counted on each GPU\n",
                "attention on all GPUs: "});
}

// Each kind of attention, with its defaults and with numbers in its word.
TEST_F(CostCommand, BesideAConfigurationCountsWhatAModelOfItsSizesKeeps) {
  folder_->file("small.json", R"({"model_type": "llama", "num_hidden_layers": 4,
      "hidden_size": 64, "num_attention_heads": 2})");
  const std::string attentions =
      "mha,gqa,mqa,mfa,gta,mla,dsa,bsa,tpa,latent-bias,fox,v4,hca,csa,delta,kda,gqa2x8,mqax16,"
      "mfa24,"
      "gta2,mla24+6,mla256+32,dsa40+10,tpa3,latent-bias5,fox1,v4@8,hca4@8,csa4+4@8,delta12,kda12,"
      "mqa/share,3*delta/mla24+6";
  for (const std::string type : {"f32", "bf16", "int8"}) {
    const std::string flags = " --cache-dtype " + type + " --attention " + attentions;
    const json beside = object("--config small.json --context 1024" + flags),
               own = object("--layers 4 --dim 64 --heads 2 --context 1024" + flags);
    for (const std::string& name : names(beside)) {
      if (name == "llama") continue;
      EXPECT_EQ(row(beside, name).at("cache_bytes_at_1024"),
                row(own, name).at("cache_bytes_at_1024"))
          << name << " " << type;
    }
  }
  EXPECT_EQ(
      bytes("--config llama --attention mha,mla512+64,mla256+32,gqa8x64,mqax32,mfa256", "131072"),
      (std::vector<std::int64_t>{16 * kGiB, 64 * kGiB, 9 * kGiB / 2, 9 * kGiB / 4, 8 * kGiB,
                                 kGiB / 2, 4 * kGiB}));
}

TEST_F(CostCommand, KeepsWhatAnAttentionDoesNotReplaceAndSaysHowMuchItReplaces) {
  expect_parts(text("--config kimi-linear-48b --attention gqa8"), {"\ngqa8 in 7 of 27 layers "});
  const json table = object("--config gpt-oss-20b --attention gqa8,mla512+64 --context 128k");
  EXPECT_EQ(row(table, "gqa8").at("cache_bytes_at_131072"),
            row(table, "gpt-oss-20b").at("cache_bytes_at_131072"));
  EXPECT_EQ(row(table, "mla512+64").at("replaced_layers"), 12);
}

TEST_F(CostCommand, PrintsModelsInEachFormatAndListsThem) {
  const std::string flags = "--config gemma-3-4b --context 4k,128k ";
  expect_parts(text(flags), {"gemma-3-4b (gemma3_text), 34 layers", "window of 1024", "at 128 k"});
  expect_parts(text(flags + "--format markdown"),
               {"full attention: 5 layers x 2,048 numbers x 2 B = 20,480 B a token  \n",
                "|  attention   |", "\n|  ---         |  ", "\n|  gemma-3-4b  |  "});
  expect_parts(text("--attention 5*gqa@1024/gqa --layers 6 --format markdown"),
               {"|  5\\*gqa@1024/gqa  |"});
  expect_parts(text("--list"), {"llama-3.1-405b"});
  EXPECT_GE(object("--list").at("rows").size(), 60);
  EXPECT_TRUE(text("--list --format csv").starts_with("name,"));
  expect_values(object("--config jamba-v0.1").at("rows").at(0),
                {{"cache_bytes_per_sequence", 28 * 155'648 * 4},
                 {"cache_bytes_per_token_after_windows", 16'384}});
  EXPECT_EQ(
      object("--config gpt-oss-20b").at("rows").at(0).at("cache_bytes_per_token_after_windows"),
      24'576);
}

// A note stands once, with all that it is about; the first row needs no name.
TEST_F(CostCommand, PrintsEachNoteOnce) {
  expect_parts(text("--config llama --attention gqa8,mqa,mla,dsa --shards 3"),
               {"\nnote: 8 KV heads are not shared out evenly: 3 are counted on each GPU\n"
                "note: mqa: 1 KV head is not shared out evenly: 1 is counted on each GPU\n"
                "note: mla, dsa: a latent is of all heads: each GPU keeps the whole of it\n"
                "note: numbers that are not in a name are this program's defaults: "
                "mla is mla192+64, dsa is dsa192+64:index-head-dim=64\n"});
  expect_parts(text("--list"), {"note: gemma-2-9b, gemma-2-27b: "});
}

// The page holds what its script draws: layers with the bytes of each part, and curves up to the
// context at which the memory is full.
TEST_F(CostCommand, WritesAPage) {
  const std::string jamba = "--config jamba-v0.1 --context 4k --shards 2 ";
  text(jamba + "--memory 1GiB --attention mha --report page.html");
  const std::string page = folder_->contents("page.html"), begin = R"(id="data">)";
  const auto at = page.find(begin) + begin.size();
  expect_parts(page, {"KV cache of jamba-v0.1"});
  const json figures =
      json::parse(page.substr(at, page.find("</script>", at) - at)).at(0).at("cost");
  double drawn = 0;
  for (const json& layer : figures.at("caches").at(0).at("cache"))
    for (const json& block : layer)
      drawn += block.at("bytes").get<double>() * block.at("heads").get<double>() *
               block.at("width").get<double>() * (block.contains("per_sequence") ? 1 : 4096);
  EXPECT_EQ(drawn, object(jamba).at("rows").at(0).at("cache_bytes_at_4096"));
  EXPECT_EQ(figures.at("caches").at(1).at("points").at(2).at(1),
            object(jamba + "--attention mha").at("rows").at(1).at("cache_bytes_at_4096"));
  for (const json& each : figures.at("caches"))
    EXPECT_GE(each.at("points").back().at(1), figures.at("room").at("bytes")) << each.at("spec");
  text("--layers 2 --report page.html");
}

TEST_F(CostCommand, HasBothNumbersOfLatentsAndSaysWhenStatesPay) {
  const json kimi = object("--config kimi-k2");
  EXPECT_EQ(row(kimi, "kimi-k2").at("cache_elements_per_token_per_layer"), 512 + 64);
  EXPECT_EQ(row(kimi, "kimi-k2, expanded").at("cache_elements_per_token_per_layer"),
            64 * (128 + 64 + 128));
  // Kimi Linear has a state of 32 heads of 128 x 128 and three inputs of convolutions, in float32;
  // rows of 576 numbers in bf16.
  EXPECT_EQ(object("--config kimi-linear-48b").at("state_context"),
            (4 * (32 * 128 * 128 + 9 * 32 * 128) + 1151) / 1152);
  expect_parts(text("--config kimi-linear-48b"),
               {"from a context of", "note: states and convolutions are counted in f32",
                "\nexpanded: engines that hold keys and values of all heads"});
  const ProgramResult parts = call("--config kimi-k2 --cache-dtype latent=int8+rope=bf16");
  expect_parts(parts.out, {"kimi-k2 (kimi_k2), 61 layers: "});
  expect_parts(parts.err, {"left out kimi-k2, expanded: ", "'latent'"});
}

}  // namespace
}  // namespace headcount
