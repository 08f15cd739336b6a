// `headcount train` as its users meet it: outputs, run folder, reproducibility.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

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

  TrainFolder folder_;
};

TEST_F(TrainCommand, WithJsonPrintsOneObject) {
  const ProgramResult result = train("--out run --quiet --format json --seed 7 --threads 2");
  EXPECT_EQ(result.err, "");
  const json object = json::parse(result.out);  // fails if anything else was printed
  ASSERT_TRUE(object.is_object());
  EXPECT_EQ(object.at("attention"), "mha");
  EXPECT_EQ(object.at("steps"), 3);
  EXPECT_EQ(object.at("seed"), 7);
  EXPECT_EQ(object.at("threads"), kTwoThreads);
  EXPECT_EQ(object.at("data_sha256"), sha256_hex(folder_.contents("text.txt")));
  EXPECT_EQ(object.at("kv_cache_bytes_per_token"), 1 * 2 * 16 * 4);
  const Checkpoint checkpoint = load_checkpoint(folder_ / "run/checkpoints/step-3");
  EXPECT_EQ(object.at("params"), checkpoint.model->parameters().element_count());
  for (const char* const name :
       {"val_loss", "train_loss", "tokens_per_second", "ms_per_step_median"}) {
    EXPECT_GT(object.at(name).get<double>(), 0) << name;
  }
  // A fresh model's loss is near that of a guess.
  const double guess = std::log(static_cast<double>(checkpoint.vocabulary.size()));
  EXPECT_NEAR(object.at("train_loss").get<double>(), guess, 0.2);
  EXPECT_NEAR(object.at("val_loss").get<double>(), guess, 0.2);
}

TEST_F(TrainCommand, WithoutJsonPrintsASummaryAndASample) {
  const ProgramResult result = train("--out run --quiet");
  for (const char* const part : {"mha", "parameters", "validation loss", "tokens/s", "run"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part;
  }
  std::string sample = folder_.contents("run/samples/step-3.txt");
  EXPECT_EQ(sample.size(), 301u);  // its characters are ASCII here
  const std::string label = "sample, temperature 0.8 (run/samples/step-3.txt):\n";
  EXPECT_NE(result.out.find("\n" + label + sample), std::string::npos) << result.out;
  const std::string text = folder_.contents("text.txt");
  EXPECT_EQ(sample.find_first_not_of(text), std::string::npos);
}

TEST_F(TrainCommand, EvaluatesOnTheBeginningOfTheValidationPartWhereThatIsAsked) {
  const auto characters = [&](const std::string& flags) {
    return json::parse(
        folder_.headcount("eval --from run --format json " + flags).out)["characters"];
  };
  const json part = json::parse(train("--out run --quiet --format json --eval-characters 30").out);
  const json all = json::parse(train("--out all --quiet --format json").out);
  EXPECT_NE(part["val_loss"], all["val_loss"]);
  EXPECT_EQ(part["train_loss"], all["train_loss"]);
  EXPECT_EQ(json::parse(folder_.contents("run/config.json"))["eval-characters"], 30);
  EXPECT_FALSE(json::parse(folder_.contents("all/config.json")).contains("eval-characters"));
  // What is recorded, what is asked for, and all.
  EXPECT_EQ(characters(""), 29);
  EXPECT_EQ(characters("--eval-characters 40"), 39);
  const json whole =
      json::parse(folder_.headcount("eval --from run --format json --eval-characters 0").out);
  EXPECT_EQ(whole["loss"], all["val_loss"]);
  EXPECT_EQ(characters("--data text.txt --eval-characters 50"), 49);
  EXPECT_NE(folder_.headcount("eval --from run").out.find("the first 30 characters of "),
            std::string::npos);
  expect_refusal(folder_.train("--out no --eval-characters 16"), kUsage,
                 {"--eval-characters 16 must be more than --context, 16"}, "train");
  expect_refusal(folder_.headcount("eval --from run --eval-characters 1"), kUsage,
                 {"--eval-characters 1 leaves nothing to predict"}, "eval");
}

TEST_F(TrainCommand, WithProfileSaysWhereTheTimeOfAStepGoes) {
  const ProgramResult with = train("--out with --quiet --format json --profile");
  const json rows = json::parse(with.out).at("profile");
  double shares = 0;
  std::set<std::string> parts;
  for (const json& row : rows) {
    shares += row.at("share").get<double>();
    parts.insert(row.at("part"));
    const bool multiplies = row["part"] == "linear" || row["part"] == "attention";
    EXPECT_EQ(row.at("gflops").is_null(), !multiplies) << row;
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  for (const char* const part : {"linear", "attention", "rms_norm", "silu_gate", "(update)"})
    EXPECT_TRUE(parts.contains(part)) << part;

  const ProgramResult without = train("--out without --quiet --format json");
  EXPECT_FALSE(json::parse(without.out).contains("profile"));
  EXPECT_EQ(folder_.weights("with"), folder_.weights("without"));

  const ProgramResult text = train("--out text --quiet --profile");
  for (const char* const part : {"forward ms", "GFLOP/s", "\nlinear ", "\nwhole step "})
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
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

TEST_F(TrainCommand, FillsTheRunFolder) {
  train("--out run --quiet");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "run")) {
    if (entry.is_regular_file()) names.insert(entry.path().lexically_relative(folder_ / "run"));
  }
  EXPECT_EQ(names,
            (std::set<std::string>{
                ".headcount-lock", "config.json", "run.json", "metrics.jsonl", "checkpoints/latest",
                "checkpoints/step-3/SHA256SUMS", "checkpoints/step-3/config.json",
                "checkpoints/step-3/model.safetensors", "checkpoints/step-3/optimizer.safetensors",
                "checkpoints/step-3/tokenizer.json", "checkpoints/step-3/tokenizer_config.json",
                "checkpoints/step-3/trainer_state.json", "samples/step-3.txt"}));
  EXPECT_EQ(folder_.contents("run/checkpoints/latest"), "step-3\n");
}

TEST_F(TrainCommand, NamesRunFoldersAfterDataAndAttention) {
  train("--quiet");
  train("--quiet");
  train("--quiet --attention mqa");
  EXPECT_TRUE(folder_.has("runs/text-mha/config.json"));
  EXPECT_TRUE(folder_.has("runs/text-mha-2/config.json"));
  EXPECT_TRUE(folder_.has("runs/text-mqa/config.json"));
}

TEST_F(TrainCommand, RepeatsARunFromItsConfiguration) {
  const std::string special =
      "--attention mla --kv-rank 5 --rope-dim 4 --dropout 0.2 --lr 0.01 --accumulate 2 --bias "
      "--score-scale 0.3 --seed 18446744073709551615 --quiet ";
  train(special + "--out run");
  const ProgramResult again =
      folder_.headcount("train --config run/config.json --out again --quiet");
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder_.weights("again"), folder_.weights("run"));
  EXPECT_EQ(folder_.contents("again/metrics.jsonl"), folder_.contents("run/metrics.jsonl"));
  EXPECT_EQ(folder_.contents("again/config.json"), folder_.contents("run/config.json"));
  EXPECT_EQ(folder_.contents("again/samples/step-3.txt"),
            folder_.contents("run/samples/step-3.txt"));
}

TEST_F(TrainCommand, LetsFlagsOverrideAConfigurationInAnyOrder) {
  train("--out run --quiet --seed 4");
  for (const char* const line : {"train --config run/config.json --seed 5 --print-config",
                                 "train --seed 5 --config run/config.json --print-config"}) {
    const json printed = json::parse(folder_.headcount(line).out);
    EXPECT_EQ(printed.at("seed"), 5) << line;
    EXPECT_EQ(printed.at("dim"), 16) << line;
  }
}

TEST_F(TrainCommand, TakesNoSizesOfAnotherAttentionFromAConfiguration) {
  const auto settings = [&](const std::string& line) {
    return json::parse(folder_.headcount("train " + line + " --print-config").out);
  };
  const std::string sizes = "--data text.txt --dim 16 --heads 2 --attention ";
  folder_.file("v4.json", settings(sizes + "v4").dump());
  EXPECT_EQ(settings("--config v4.json --attention mha"), settings(sizes + "mha"));
  folder_.file("mla.json", settings(sizes + "mla6+4").dump());
  EXPECT_EQ(settings("--config mla.json --attention mla"), settings(sizes + "mla6+4"));
  folder_.file("narrow.json", settings(sizes + "gqa1 --head-dim 4").dump());
  EXPECT_EQ(settings("--config narrow.json --attention mha"), settings(sizes + "mha --head-dim 4"))
      << "a width that is not the default was chosen for any attention";
}

TEST_F(TrainCommand, WithPrintConfigPrintsWhatTheRunWouldRecord) {
  const ProgramResult printed = train("--attention gqa --heads 4 --out run --print-config");
  EXPECT_EQ(printed.err, "");
  EXPECT_FALSE(folder_.has("run"));
  train("--attention gqa --heads 4 --out run --quiet");
  EXPECT_EQ(printed.out, folder_.contents("run/config.json"));
  EXPECT_EQ(json::parse(printed.out).at("kv-heads"), 2);
}

TEST_F(TrainCommand, SaysThatItShortensAWarmUpLongerThanTheRun) {
  for (const std::string flags : {"", "--warmup 100 "}) {
    const ProgramResult result = train(flags + "--steps 20 --force --out run");
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(
        result.err.starts_with("headcount: the warm-up of 100 steps is longer than the run of 20; "
                               "it is shortened to 2\n"))
        << result.err;
    EXPECT_DOUBLE_EQ(folder_.metrics("run").at(2).at("lr"), 1e-3) << "after a warm-up of two steps";
  }
  EXPECT_EQ(folder_.headcount("train --resume run --warmup 100").exit_code, 0);
}

TEST_F(TrainCommand, ThatFindsARunFinishedTellsNoSpeed) {
  train("--steps 20 --out run");
  const std::string out = folder_.headcount("train --resume run").out;
  EXPECT_NE(out.find("20 steps, all of an earlier start\n"), std::string::npos) << out;
}

TEST_F(TrainCommand, TakesSettingsWithWhichABuiltInTextIsLearnedWhereNoneAreGiven) {
  const auto config = [&](const std::string& flags) {
    const ProgramResult result = folder_.headcount("train --print-config " + flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  };
  const json lookup = config("--data lookup --lr 0.5");
  EXPECT_EQ(lookup["head-dim"], 2);
  EXPECT_EQ(lookup["positions"], "none");
  EXPECT_EQ(lookup["lr"], 0.5);
  EXPECT_EQ(config("--data tales")["dim"], 64);
  EXPECT_EQ(config("")["dim"], 64);  // recall, too
  EXPECT_EQ(config("--data text.txt")["dim"],
            find_setting(model_settings(), "dim")->standard.value);
  EXPECT_EQ(config("--data lookup --preset nanogpt-cpu")["dim"], 128);
  folder_.file("c.json", R"({"data": "lookup", "heads": 2})");
  const json configured = config("--config c.json");
  EXPECT_EQ(configured["heads"], 2);
  EXPECT_EQ(configured["head-dim"], 2);
}

TEST_F(TrainCommand, ClaimsNoFloorWhereStoriesDoNotFitIntoTheContext) {
  const auto trained = [&](const std::string& flags) {
    const ProgramResult result = folder_.headcount(
        "train --data tales --layers 1 --dim 2 --heads 1 --ffn-dim 1 --batch 1 --steps 1 --quiet "
        "--eval-characters 1k " +
        flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  };
  const std::string note =
      "note: Stories of up to 279 characters do not fit into the context of 64 ";
  const std::string cut = trained("--context 64 --out cut"),
                    whole = trained("--context 279 --out whole");
  EXPECT_NE(cut.find(note), std::string::npos) << cut;
  EXPECT_EQ(cut.find("best possible"), std::string::npos);
  EXPECT_EQ(cut.find("at most 100 %"), std::string::npos);
  EXPECT_EQ(whole.find("Stories of"), std::string::npos) << whole;
  EXPECT_NE(whole.find("best possible loss"), std::string::npos);
  EXPECT_NE(whole.find("at most 100 %"), std::string::npos);
  EXPECT_EQ(
      json::parse(trained("--context 64 --format json --out j")).count("entropy_per_character"),
      0u);
  const ProgramResult eval = folder_.headcount("eval --from cut");
  EXPECT_NE(eval.out.find(note), std::string::npos) << eval.out << eval.err;
  EXPECT_EQ(eval.out.find("at most 100 %"), std::string::npos);
}

TEST_F(TrainCommand, ReportsAnswersOfTheBuiltInText) {
  const ProgramResult result = folder_.headcount(
      "train --data lookup --layers 1 --dim 2 --heads 1 --ffn-dim 1 --context 128 --batch 1 "
      "--steps 1 --eval-characters 4k --quiet --format json --out run");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json object = json::parse(result.out);
  EXPECT_GE(object.at("val_answer_accuracy").get<double>(), 0);
  EXPECT_LT(object.at("val_answer_accuracy").get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(object.at("answer_baselines").at("guesser").get<double>(), 0.25);
  EXPECT_EQ(object.at("entropy_per_character").get<double>(), 0);
  EXPECT_GT(object.at("val_loss").get<double>(), object.at("entropy_per_character").get<double>());
}

TEST(HelpCommand, ShowsTheUsualFlagsOnOneScreen) {
  const TrainFolder folder;
  for (const std::string command : {"train", "compare", "cost"}) {
    const std::string help = folder.headcount(command + " --help").out;
    EXPECT_LE(std::ranges::count(help, '\n'), 60) << help;
    for (const char* const shown : {"--attention ", "--context ", " --help all lists "})
      EXPECT_NE(help.find(shown), std::string::npos) << shown;
    EXPECT_LT(help.size(), folder.headcount(command + " --help all").out.size());
  }
  expect_refusal(folder.headcount("train --help 3"), kUsage, {"--help takes no value but all"},
                 "help");
}

// The sizes are those of `cost` without flags.
TEST(HelpCommand, ExplainsEachAttention) {
  const TrainFolder folder;
  for (const AttentionKind* kind : attention_kinds()) {
    const ProgramResult result = folder.headcount("help " + std::string(kind->name));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string unwrapped = std::regex_replace(result.out, std::regex("\n +"), " ");
    for (const std::string_view part : {kind->formula, kind->source})
      EXPECT_NE(unwrapped.find(part), std::string::npos) << part;
    EXPECT_FALSE(kind->formula.empty()) << kind->name;
    for (const Setting& setting : kind->settings())
      EXPECT_NE(result.out.find("--" + setting.name + "  "), std::string::npos) << setting.name;
  }
  const std::string mla = folder.headcount("help mla").out;
  EXPECT_NE(mla.find("a token: latent 48, rope_key 16\n"), std::string::npos) << mla;
  EXPECT_NE(mla.find("a sequence: nothing\n"), std::string::npos) << mla;
  EXPECT_NE(mla.find("mlaN+M"), std::string::npos) << mla;
  EXPECT_NE(folder.headcount("help gqa1").out.find("a token: k 32, v 32\n"), std::string::npos);
  expect_refusal(folder.headcount("help gqa3"), kUsage, {"--kv-heads 3 does not divide"}, "gqa3");
}

}  // namespace
}  // namespace headcount
