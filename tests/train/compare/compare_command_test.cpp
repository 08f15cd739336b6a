// label: unsanitized
// headcount compare as a user runs it, on models that train in milliseconds.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "train/compare/comparison_folder.h"
#include "train/compare/results.h"

namespace headcount {
namespace {

using nlohmann::json;

TEST(CompareCommand, LeavesATableAndEverythingBehindIt) {
  const ComparisonFolder folder;
  const std::string flags = "--attention mha,gqa1";
  const ProgramResult result = folder.compared(flags);
  expect_parts(result.out, {"gqa1", "report c/report.html"});
  expect_parts(result.err, {"mha, seed 1: validation loss ", "4 of 4 runs done"});
  EXPECT_EQ(result.err.find('\r'), std::string::npos) << "plain when not on a terminal";
  for (const char* file :
       {"results.json", "report.html", "runs/mha/seed-1/metrics.jsonl",
        "runs/gqa1/seed-2/config.json", "runs/gqa1/seed-2/checkpoints/step-3/model.safetensors"})
    EXPECT_TRUE(folder.has("c/" + std::string(file))) << file;
  const json r = folder.results();
  EXPECT_EQ(r["seeds"], json({1, 2}));
  EXPECT_EQ(r["variants"].size(), 2u);
  // 1 layer, k and v of 2 heads, or of one, of 8 numbers of 4 bytes.
  EXPECT_EQ(r["variants"][0]["kv_cache_bytes_per_token"], 128);
  EXPECT_EQ(r["variants"][1]["kv_cache_bytes_per_token"], 64);
  EXPECT_EQ(r["command"], "headcount " + ComparisonFolder::line(flags));
  const json alone = folder.object(
      TrainFolder::train_line("--attention gqa --kv-heads 1 --seed 2 --eval-every 0 --out alone"));
  EXPECT_EQ(r["variants"][1]["val_losses"][1], alone["val_loss"]) << "trains what train trains";
  EXPECT_EQ(folder.contents("c/runs/gqa1/seed-2/metrics.jsonl"),
            folder.contents("alone/metrics.jsonl"));
  EXPECT_EQ(folder.compared(flags + " --quiet").err, "");
  const json printed = folder.object(ComparisonFolder::line(flags));
  EXPECT_EQ(printed, folder.results());
}

// One training, evaluated as `eval` does through each cache; parts that mla lacks give it no row.
TEST(CompareCommand, EvaluatesEachRunThroughRoundedCaches) {
  const ComparisonFolder folder;
  const std::string flags = "--attention gqa1,mla --quiet ";
  const ProgramResult result =
      folder.compared(flags + "--cache-dtype f32,int2,k=int4+v=int2 --cache-rotate off,on");
  expect_parts(result.out, {"int2 rotated"});
  const json variants = folder.results()["variants"];
  EXPECT_EQ(variants[0]["rounded"].size(), 6u);
  EXPECT_EQ(variants[1]["rounded"].size(), 4u);
  const json& exact = variants[0]["rounded"][0];
  EXPECT_EQ(exact["cache"], "f32");
  for (const std::size_t i : {0, 1})
    EXPECT_NEAR(exact["val_losses"][i], variants[0]["val_losses"][i].get<double>(), 1e-5);
  const json& rounded = variants[0]["rounded"][3];
  EXPECT_EQ(rounded["cache"], "int2 rotated");
  EXPECT_EQ(rounded["kv_cache_bytes_per_token"], 2 * (2 + 2));  // k and v of 8 numbers, scales
  EXPECT_EQ(
      folder.object("eval --from c/runs/gqa1/seed-2 --cache-dtype int2 --cache-rotate on")["loss"],
      rounded["val_losses"][1]);
  // A text's begin is enough for the question, and an evaluation is made once.
  const std::string some = flags + "--cache-dtype int2 --cache-characters ";
  expect_parts(folder.compared(some + "30").out, {"on the first 30 characters"});
  const std::string file = "c/runs/mla/seed-1/rounded.json";
  json saved = folder.json(file);
  ASSERT_EQ(saved["roundings"].size(), 1u);
  saved["roundings"]["int2"] = {7.5};
  folder.file(file, saved.dump());
  const auto loss_again = [&](const std::string& flag) -> json {
    folder.compared(some + flag);
    return folder.results()["variants"][1]["rounded"][0]["val_losses"][0];
  };
  EXPECT_EQ(loss_again("30"), 7.5);
  EXPECT_NE(loss_again("31"), 7.5);
  folder.file(file, "{");
  EXPECT_LT(loss_again("30"), 7.5);
  for (const char* refused : {"--cache-dtype int2 --cache-characters 16", "--cache-characters 30"})
    EXPECT_EQ(folder.compare(flags + refused).exit_code, kUsage) << refused;
  folder.expect_refusal(ComparisonFolder::line(flags + "--cache-dtype q=int4"), kUsage,
                        {"does not keep"});
}

// Nothing is enough that learned nothing, and no difference between such models is one.
TEST(CompareCommand, DecidesNothingBesideAReferenceThatLearnedNothing) {
  const ComparisonFolder folder;
  const auto verdict = [&](const std::string& flags) -> std::string {
    const ProgramResult result =
        folder.done("compare --attention mha,mqa,mla4+0 --out c --force --quiet " + flags);
    const json r = folder.results();
    EXPECT_TRUE(r["verdict"]["enough"].is_null()) << flags;
    for (const int v : {1, 2}) EXPECT_EQ(r["variants"][v]["verdict"], "open") << flags;
    const std::string text = r["verdict"]["text"];
    EXPECT_TRUE(result.out.ends_with("verdict: " + text + "\n")) << result.out;
    return text;
  };
  const std::string lookups = "--data lookup --steps 5 ";
  EXPECT_EQ(verdict(lookups),
            "nothing can be decided: the 5 steps are fewer than the warm-up of 20; train "
            "longer or shorten the warm-up");
  EXPECT_EQ(folder.results()["verdict"]["metric"], "answers") << "its loss counts no other";
  EXPECT_EQ(folder.results()["verdict"]["tolerance"], 5);
  EXPECT_EQ(folder.results()["seeds"].size(), 5u);
  expect_parts(
      verdict(lookups + "--warmup 0 --tolerance 90"),
      {"nothing can be decided: mha, the reference, has ", "guessing has 1.3863; train longer"});
  const std::string pairs =
      verdict(over_defaults(ComparisonFolder::kModel, "--steps 20 --warmup 0 --heads 4 --dim 32") +
              " --seeds 2..9 --tolerance 100");
  expect_parts(pairs, {"a bigram model has ", "; no loss is so much lower: lower the tolerance"});
  EXPECT_EQ(folder.results()["seeds"].size(), 2u) << "more seeds do not teach it more";
}

TEST(CompareCommand, AloneAsksWhichCacheLearnsRecallAsSoon) {
  const ComparisonFolder folder;
  expect_parts(folder.done("compare --help").out, {"[recall]", "[mha,gqa2,mqa,mla32+0,mhax4]"});
  const json r = folder.object("compare --steps 2 --seeds 2 --threads 2 --quiet --out c");
  EXPECT_EQ(r["data"], "recall");
  EXPECT_EQ(r["variants"].size(), 5u);
  EXPECT_EQ(r["variants"][3]["spec"], "mla32+0");
  EXPECT_EQ(r["variants"][3]["kv_cache_bytes_per_token"],
            r["variants"][2]["kv_cache_bytes_per_token"]);
  EXPECT_EQ(r["verdict"]["metric"], "steps");
  EXPECT_EQ(r["config"]["context"], 32);
  EXPECT_EQ(r["answer_baselines"]["guesser"], 1 / 256.0);
  for (const char* part : {"curves", "answers_by_distance", "cache", "reading"})
    EXPECT_FALSE(r["variants"][1][part].empty()) << part;
  const std::string text = folder.contents("c/results.json");
  EXPECT_EQ(results_text(comparison_json(read_results(nlohmann::ordered_json::parse(text)))), text);
  folder.done("report c/results.json --out again");
  EXPECT_EQ(folder.contents("again/report.html"), folder.contents("c/report.html"))
      << "a report needs nothing else";
  // Other texts are asked for their loss, on three seeds.
  const json other =
      folder.object("compare " + std::string(ComparisonFolder::kModel) + " --out d --quiet");
  EXPECT_EQ(other["seeds"], json({1, 2, 3}));
  EXPECT_EQ(other["variants"].size(), 4u);
  EXPECT_EQ(other["variants"][3]["spec"], "mla");
  EXPECT_EQ(other["verdict"]["metric"], "loss");
}

// Recall is asked for steps, and its runs end when they have learned; those of other metrics do
// not.
TEST(CompareCommand, ByLossTrainsATextThatJudgesAnswersToTheEnd) {
  const json r = TrainFolder().object(
      "compare --data recall --metric loss --attention mha,mqa --steps 2 --threads 2 --quiet "
      "--eval-characters 2k --out c");
  EXPECT_EQ(r["verdict"]["metric"], "loss");
  EXPECT_EQ(r["seeds"], json({1, 2, 3}));
  EXPECT_EQ(r["config"].value("stop-at-answers", 0.0), 0);
  EXPECT_EQ(r["variants"][1]["val_losses"].size(), 3u);
  EXPECT_EQ(r["variants"][1]["answer_accuracies"].size(), 3u);
}

TEST(CompareCommand, ByStepsEndsRunsThatHaveLearned) {
  const ComparisonFolder folder;
  const std::string by_loss = kLearning + "--metric steps --stop-at-loss 1.5 ";
  folder.compared(by_loss + "--eval-every 20");
  const json r = folder.results();
  EXPECT_EQ(r["config"]["stop-at-loss"], 1.5);
  for (const json& variant : r["variants"]) {
    for (const std::size_t i : {0, 1}) {
      const int learned = variant["steps_to_learn"][i];
      EXPECT_EQ(learned % 20, 0);
      EXPECT_LT(learned, 400);
      const json& losses = variant["evaluations"][i]["losses"];
      EXPECT_EQ(losses.size(), learned / 20u);
      for (std::size_t at = 0; at < losses.size(); ++at)
        EXPECT_EQ(losses[at] < 1.5, at + 1 == losses.size());
    }
  }
  // A finished run is the same whenever it is evaluated, unless that may end it.
  expect_parts(folder.compare(by_loss + "--eval-every 10").err, {"eval-every"});
}

// What a reader must know of a comparison stands in its output, its report and its results.
TEST(CompareCommand, SaysWhatItsSettingsMeanForItsResults) {
  const struct {
    std::string flags, shown;
    std::vector<std::string> missing = {};
    int exit_code = 0;
  } cases[] = {
      {"--steps 1", "", {"Evaluated on"}},
      {"--eval-characters 30", "Evaluated on the first 30 characters of the validation part"},
      {"--steps 40 --warmup 50",
       "The warm-up of 50 steps is longer than the run of 40 steps; it is shortened to a tenth of "
       "the run."},
      {"--data tales --dim 2 --heads 1 --steps 1",
       "characters do not fit into the context of 16",
       {"above floor", "ceiling"}},
      {"--lr 100 --grad-clip 0 --steps 40 --warmup 0", "became", {}, kDiverged},
  };
  for (const auto& c : cases) {
    const ComparisonFolder folder;
    const ProgramResult result = folder.compare(c.flags);
    EXPECT_EQ(result.exit_code, c.exit_code) << result.err;
    expect_parts(result.out, {c.shown});
    expect_parts(folder.contents("c/report.html"), {c.shown});
    for (const std::string& text : c.missing)
      EXPECT_EQ(result.out.find(text), std::string::npos) << c.flags << "\n" << result.out;
    const json r = folder.results();
    EXPECT_EQ(r["evaluated_characters"], c.shown.starts_with("Evaluated on") ? 30 : 0);
    EXPECT_TRUE(r["entropy_per_character"].is_null());
  }
}

TEST(CompareCommand, PicksTheBestOfASweepOnTextThatNobodyTrainedOn) {
  const ComparisonFolder folder;
  const std::string text = folder.contents("text.txt");
  folder.file("text.txt", text + text + text);
  // A model learns nothing at a learning rate of zero, so the other value must be chosen.
  const ProgramResult result = folder.compared("--steps 60 --sweep lr=0,1e-2");
  const json r = folder.results();
  for (const json& variant : r["variants"]) {
    EXPECT_EQ(variant["adjusted"], "lr 1e-2");
    const json& swept = variant["sweep"];
    ASSERT_EQ(swept.size(), 2u);
    EXPECT_EQ(swept[0]["value"], "0");
    EXPECT_LT(swept[1]["loss"], swept[0]["loss"]);
    EXPECT_EQ(swept[1]["chosen"], true);
  }
  for (const std::string& shown : {result.out, folder.contents("c/report.html")})
    expect_parts(shown, {"lr 0", "lr 1e-2", "first tenth of the training text",
                         "mqa has the largest lr of the sweep, 1e-2"});
  const json run = folder.json("c/runs/mha/lr=1e-2/seed-1/result.json");
  EXPECT_EQ(run["tuning_characters"][0], 0);
  EXPECT_GT(run["tuning_characters"][1], 0);
  EXPECT_NE(run["tuning_loss"], run["val_loss"]);
  const json alone = folder.object(TrainFolder::train_line("--steps 60 --lr 1e-2 --out alone"));
  EXPECT_NE(run["val_loss"], alone["val_loss"])
      << "the run of the sweep has not seen the first tenth of the training text";
}

TEST(CompareCommand, RefusesWhatItCannotDoInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"--attention mha,mha", "'mha' is in the list twice"},
      {"--seeds 1", "--seeds 1 gives no confidence intervals; give 2 or more, or --intervals off"},
      {"--seeds 5..3",
       "--seeds 5..3 must be a number or a range from 2 or more to a greater number"},
      {"--seeds 2..x", "--seeds must be a whole number or a range such as 3..20; 'x' is neither"},
      {"--seeds 2..4 --intervals off", "--seeds 2..4 adds seeds until intervals decide"},
      {"--reference gqa", "--reference 'gqa' is not among the compared attentions"},
      {"--tolerance -1", "--tolerance must be"},
      {"--metric speed", "--metric must be"},
      {"--match half", "--match must be none, params or kv=BYTES"},
      {"--metric answers", "--metric answers: text.txt marks no answers"},
      {"--metric loss --stop-at-loss 1.5", "take --metric steps"},
      {"--sweep lr=1e-3,fast", "--lr must be a number, is 'fast'"},
      {"--sweep lr=1e-3,1e-2 --lr 0.5",
       "--lr 0.5 changes nothing: --attention mha,mqa or --sweep sets another lr"},
      {"--positions learned --rope-theta 5",
       "--rope-theta 5 rotates nothing with --positions learned; leave it out"},
      {"--attention v4x8,mha --output-projection off --o-rank 8",
       "--o-rank 8 has no effect with --output-projection off, which projects nothing"},
      {"--config init.json",
       "--config init.json has init 'run', but a comparison trains all models from random "
       "weights"},
      {"--kv-rank 8", "--kv-rank has no effect with --attention mha,mqa"},
      {"--seed 3", "seed"},
  };
  const ComparisonFolder folder;
  folder.file("init.json", "{\"init\": \"run\"}");
  for (const auto& [flags, message] : cases) {
    folder.expect_refusal(ComparisonFolder::line(flags), kUsage, {message});
    EXPECT_FALSE(folder.has("c")) << flags;
  }
}

}  // namespace
}  // namespace headcount
