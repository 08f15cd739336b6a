// `headcount train` as its users meet it: outputs, run folder, reproducibility.
#include <array>
#include <cmath>
#include <regex>
#include <set>

#include "autograd/base/sha256.h"
#include "models/checkpoint/checkpoint.h"
#include "train/options.h"
#include "train/run_program.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class TrainCommand : public testing::Test {
 protected:
  ProgramResult train(const std::string& flags) const { return folder_.trained(flags); }
  json result(const std::string& flags) const {
    return folder_.object(TrainFolder::train_line(flags + " --quiet"));
  }
  json config(const std::string& flags) const {
    return json::parse(folder_.done("train --print-config " + flags).out);
  }

  TrainFolder folder_;
};

TEST_F(TrainCommand, WithJsonPrintsOneObject) {
  const ProgramResult result = train("--out run --quiet --format json --seed 7");
  EXPECT_EQ(result.err, "");
  const json object = json::parse(result.out);  // fails if anything else was printed
  const Checkpoint checkpoint = load_checkpoint(folder_ / "run/checkpoints/step-3");
  expect_values(object, {{"attention", "mha"},
                         {"steps", 3},
                         {"seed", 7},
                         {"threads", 1},
                         {"data_sha256", sha256_hex(folder_.contents("text.txt"))},
                         {"kv_cache_bytes_per_token", 1 * 2 * 16 * 4},
                         {"params", checkpoint.model->parameters().element_count()}});
  for (const char* const name :
       {"val_loss", "train_loss", "tokens_per_second", "ms_per_step_median"})
    EXPECT_GT(object.at(name), 0) << name;
  // A fresh model's loss is near that of a guess.
  EXPECT_NEAR(object.at("val_loss"), std::log(checkpoint.vocabulary.size()), 0.2);
}

TEST_F(TrainCommand, WithoutJsonPrintsASummaryAndASample) {
  const std::string out = train("--out run --quiet").out,
                    sample = folder_.contents("run/samples/step-3.txt");
  EXPECT_EQ(sample.size(), 301u);  // its characters are ASCII here
  EXPECT_EQ(sample.find_first_not_of(folder_.contents("text.txt")), std::string::npos);
  expect_parts(out, {"mha", "parameters", "validation loss", "tokens/s", "run",
                     "\nsample, temperature 0.8 (run/samples/step-3.txt):\n" + sample});
  expect_parts(folder_.done("train --resume run").out, {"3 steps, all of an earlier start\n"});
}

TEST_F(TrainCommand, EvaluatesOnTheBeginningOfTheValidationPartWhereThatIsAsked) {
  const json part = result("--out run --eval-characters 30"), all = result("--out all");
  EXPECT_NE(part["val_loss"], all["val_loss"]);
  EXPECT_EQ(part["train_loss"], all["train_loss"]);
  EXPECT_EQ(folder_.settings("run")["eval-characters"], 30);
  // What is recorded, what is asked for, and all.
  for (const auto& [flags, characters] :
       {std::pair{"", 29}, {" --data text.txt --eval-characters 50", 49}})
    EXPECT_EQ(folder_.object("eval --from run" + std::string(flags))["characters"], characters);
  EXPECT_EQ(folder_.object("eval --from run --eval-characters 0")["loss"], all["val_loss"]);
  expect_parts(folder_.done("eval --from run").out, {"the first 30 characters of "});
}

TEST_F(TrainCommand, WithProfileSaysWhereTheTimeOfAStepGoes) {
  const json rows = result("--out with --profile").at("profile");
  double shares = 0;
  for (const json& row : rows) {
    shares += row.at("share").get<double>();
    const bool multiplies = row["part"] == "linear" || row["part"] == "attention";
    EXPECT_EQ(row.at("gflops").is_null(), !multiplies) << row;
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_FALSE(result("--out without").contains("profile"));
  EXPECT_EQ(folder_.weights("with"), folder_.weights("without"));
  expect_parts(train("--out text --quiet --profile").out,
               {"forward ms", "GFLOP/s", "\nlinear ", "\nrms_norm ", "\nwhole step "});
}

TEST_F(TrainCommand, LogsOneLinePerStepAndEvaluatesAtTheEndInAnyCase) {
  for (const std::size_t every : {2u, 0u}) {
    train("--out run --quiet --force --steps 5 --eval-every " + std::to_string(every));
    const std::vector<json> lines = folder_.metrics("run");
    ASSERT_EQ(lines.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(lines[i].at("step"), i + 1);
      for (const char* const name : {"loss", "lr", "grad_norm"})
        EXPECT_GT(lines[i].at(name).get<double>(), 0) << name;
      const bool evaluated = i == 4 || (every > 0 && (i + 1) % every == 0);
      EXPECT_EQ(lines[i].contains("val_loss"), evaluated) << i;
    }
  }
}

TEST_F(TrainCommand, SaysWhereTheLossWasLowestAndHowThatModelIsRead) {
  // The rate rises until it is far too great, on any processor.
  const std::string worse =
      "--quiet --steps 60 --lr 2 --decay constant --warmup 60 --eval-every 5 --out ";
  for (const std::string kept : {"5", "0"}) {
    const std::string run = "kept-" + kept,
                      out = train(worse + run + " --checkpoint-every " + kept).out;
    const json again = folder_.object("train --quiet --resume " + run);
    const int best = again.at("best_step");
    ASSERT_LT(best, 60);
    ASSERT_GT(again.at("val_loss").get<double>(), 1.01 * again.at("best_val_loss").get<double>());
    expect_parts(out, {"\nlowest validation loss ",
                       ", at step " + std::to_string(best) + ", from which on the run overfits; "});
    if (kept == "0") {
      expect_parts(out, {"that checkpoint is not kept; --checkpoint-every above 0 keeps it\n"});
      folder_.expect_refusal("eval --best --from " + run, kData,
                             {", at step " + std::to_string(best) + ", whose checkpoint is not",
                              "--checkpoint-every above 0"});
      continue;
    }
    expect_parts(out, {"headcount sample --from kept-5 --best reads that checkpoint, and so does"});
    folder_.done("sample --from kept-5 --best --tokens 2");
    EXPECT_EQ(folder_.object("eval --from kept-5 --best")["loss"], again["best_val_loss"]);
  }
  expect_no_parts(train("--quiet --eval-every 1 --out better").out, {"lowest validation loss"});
}

TEST_F(TrainCommand, FillsTheRunFolder) {
  train("--out run --quiet");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "run")) {
    if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(folder_ / "run"));
  }
  EXPECT_EQ(names,
            (std::set<std::string>{
                ".headcount-lock", "run.json", "metrics.jsonl", "checkpoints/latest",
                "checkpoints/step-3/SHA256SUMS", "checkpoints/step-3/config.json",
                "checkpoints/step-3/model.safetensors", "checkpoints/step-3/optimizer.safetensors",
                "checkpoints/step-3/tokenizer.json", "checkpoints/step-3/tokenizer_config.json",
                "checkpoints/step-3/trainer_state.json", "samples/step-3.txt"}));
  EXPECT_EQ(folder_.contents("run/checkpoints/latest"), "step-3\n");
}

TEST_F(TrainCommand, PrintsTheConfigurationThatARunRecordsAndThatRepeatsIt) {
  const std::string special =
      "--attention mla --kv-rank 5 --rope-dim 4 --dropout 0.2 --lr 0.01 --accumulate 2 --bias "
      "--score-scale 0.3 --seed 18446744073709551615 --quiet ";
  const ProgramResult printed = train(special + "--out run --print-config");
  EXPECT_EQ(printed.err, "");
  EXPECT_FALSE(folder_.has("run"));
  train(special + "--out run");
  EXPECT_EQ(json::parse(printed.out), folder_.settings("run"));
  folder_.file("printed.json", printed.out);
  for (const std::string config : {"run/run.json", "printed.json"})
    folder_.done("train --config " + config + " --out again --quiet --force");
  EXPECT_EQ(folder_.weights("again"), folder_.weights("run"));
  EXPECT_EQ(folder_.settings("again"), folder_.settings("run"));
  for (const std::string file : {"metrics.jsonl", "samples/step-3.txt"})
    EXPECT_EQ(folder_.contents("again/" + file), folder_.contents("run/" + file)) << file;
}

TEST_F(TrainCommand, TakesNoSizesOfAnotherAttentionFromAConfiguration) {
  const std::string sizes = "--data text.txt --dim 16 --heads 2 --attention ";
  for (const auto& [before, attention, after] :
       {std::array{"v4", "mha", "mha"},
        {"mla6+4", "mla", "mla6+4"},
        // A width that is not the default was chosen for any attention.
        {"gqa1 --head-dim 4", "mha", "mha --head-dim 4"}}) {
    folder_.file("before.json", config(sizes + before).dump());
    EXPECT_EQ(config("--config before.json --attention " + std::string(attention)),
              config(sizes + after))
        << before;
  }
}

TEST_F(TrainCommand, TakesSettingsFromFlagsThenAConfigurationThenItsText) {
  folder_.file("lookup.json", R"({"data": "lookup", "heads": 2})");
  folder_.file("small.json", R"({"data": "text.txt", "dim": 16, "heads": 2, "seed": 4})");
  const json usual = find_setting(model_settings(), "dim")->standard.value;
  for (const auto& [flags, settings] : std::vector<std::pair<std::string, json>>{
           {"--seed 5 --config small.json", {{"seed", 5}, {"dim", 16}}},
           {"--data text.txt", {{"dim", usual}}},
           {"--data tales", {{"dim", 64}}},
           {"", {{"data", "recall"}, {"dim", 64}}},
           {"--data lookup --lr 0.5", {{"head-dim", 8}, {"positions", "none"}, {"lr", 0.5}}},
           {"--data lookup --preset nanogpt-cpu", {{"dim", 128}}},
           {"--config lookup.json", {{"heads", 2}, {"head-dim", 8}}}}) {
    SCOPED_TRACE(flags);
    expect_values(config(flags), settings);
  }
}

TEST_F(TrainCommand, ClaimsNoFloorWhereStoriesDoNotFitIntoTheContext) {
  const std::string tiny =
      "train --data tales --layers 1 --dim 2 --heads 1 --ffn-dim 1 --batch 1 --steps 1 --quiet "
      "--eval-characters 1k --context ";
  const std::string note =
      "note: Stories of up to 279 characters do not fit into the context of 64 ";
  const std::string cut = folder_.done(tiny + "64 --out cut").out,
                    whole = folder_.done(tiny + "279 --out whole").out;
  for (const std::string& text : {cut, folder_.done("eval --from cut").out}) {
    expect_parts(text, {note});
    expect_no_parts(text, {"best possible", "at most 100 %"});
  }
  expect_no_parts(whole, {"Stories of"});
  expect_parts(whole, {"best possible loss", "at most 100 %"});
  EXPECT_FALSE(folder_.object(tiny + "64 --out j").contains("entropy_per_character"));
}

TEST_F(TrainCommand, ReportsAnswersOfTheBuiltInText) {
  const json object = folder_.object(
      "train --data lookup --layers 1 --dim 2 --heads 1 --ffn-dim 1 --context 128 --batch 1 "
      "--steps 1 --eval-characters 4k --quiet --out run");
  EXPECT_LT(object.at("val_answer_accuracy"), 0.5);
  EXPECT_EQ(object.at("answer_baselines").at("guesser"), 0.25);
  EXPECT_EQ(object.at("entropy_per_character"), 0);
  EXPECT_GT(object.at("val_loss"), 0);
}

// The sizes are those of `cost` without flags.
TEST(HelpCommand, ExplainsEachAttention) {
  const TrainFolder folder;
  for (const AttentionKind* kind : attention_kinds()) {
    const std::string name(kind->name), out = folder.done("help " + name).out;
    EXPECT_FALSE(kind->formula.empty()) << kind->name;
    std::string summary(kind->summary);
    std::erase(summary, '`');
    const std::string text = std::regex_replace(out, std::regex("\n +"), " ");
    EXPECT_TRUE(text.starts_with(name + ": " + summary + "\nhead i: ")) << out;
    expect_parts(text, {std::string(kind->formula), std::string(kind->source),
                        "\ntry: headcount train --attention " + name + "\n"});
    for (const Setting& setting : kind->settings())
      expect_parts(out, {"\n  --" + setting.name + "  "});
  }
  expect_parts(folder.done("help mla").out,
               {"\n  a token: latent 48, rope_key 16\n", "\n  a sequence: nothing\n", "mlaN+M"});
  expect_parts(folder.done("help gqa1").out, {"a token: k 32, v 32\n"});
  expect_parts(folder.done("help gqa8").out,
               {"try: headcount train --attention gqa8 --heads 16\n", "a token: k 64, v 64\n"});
  EXPECT_EQ(folder.done("help GQA8").out, folder.done("help gqa8").out);
}

TEST(HelpCommand, ExplainsEachPartOfAWord) {
  const TrainFolder folder;
  for (const auto& [word, parts] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"gqa2", {"gqa2 is gqa with\n  2  --kv-heads 2: KV heads;"}},
           {"mla16+8", {"\n  16  --kv-rank 16: ", "\n  +8  --rope-dim 8: "}},
           {"mhax4", {"mhax4 is mha with\n  x4  --head-dim 4: dimensions per head\n"}},
           {"mqa:tie-kv=on@16", {"\n  :tie-kv=on  --tie-kv on: ", "\n  @16  --window 16: "}},
           {"mqa/share", {"\nmqa: see below\nshare: as a part of a pattern, reads the KV cache"}},
           {"3*gqa2@64/mqa", {"\ngqa2@64 is gqa with\n", "\ngqa: Grouped", "\nmqa: Multi-query"}}})
    for (const std::string& part : parts) expect_parts(folder.done("help " + word).out, {part});
}

TEST(HelpCommand, ExplainsTopicsTextsAndOptimizers) {
  const TrainFolder folder;
  const std::string all = folder.done("--help all").out, list = folder.done("--help").out;
  EXPECT_EQ(folder.done("help all").out, all);
  for (const std::string topic : {"share", "window", "canon", "bits", "pattern", "tales", "lookup",
                                  "mqar", "recall", "adamw", "muon"}) {
    const std::string out = folder.done("help " + topic).out;
    EXPECT_TRUE(out.starts_with(topic + ": ")) << out;
    expect_parts(out, {"\ntry: headcount "});
    expect_parts(all, {"\n  " + topic + " "});
    expect_parts(list, {topic});
  }
  expect_parts(folder.done("help lookup").out, {"one piece stands", "\n  --directions  "});
  expect_parts(folder.done("help muon").out, {"\n  --muon-lr  "});
  expect_parts(folder.done("help share-index").out, {"share-index: as a part of a pattern"});
  expect_parts(folder.done("help int8").out, {"int8: --cache-dtype says", "q8_0"});
  expect_parts(folder.done("help cache-group").out, {"q8_0", "try: headcount eval --help all"});
  for (const std::string& line : lines_of(all)) EXPECT_LE(character_count(line), 100u) << line;
}

}  // namespace
}  // namespace headcount
