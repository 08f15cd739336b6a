// label: unsanitized
// headcount compare as a user runs it, on models that train in milliseconds.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/compare/results.h"
#include "train/compare/small_comparison.h"

namespace headcount {
namespace {

using nlohmann::json;

TEST(CompareCommand, LeavesATableAndEverythingBehindIt) {
  const TrainFolder folder;
  const ProgramResult result = compare(folder, "--attention mha,mqa --seeds 2 --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("mqa"), std::string::npos);
  EXPECT_NE(result.out.find("report c/report.html"), std::string::npos);
  for (const char* file :
       {"results.json", "results.csv", "report.html", "runs/mha/seed-1/metrics.jsonl",
        "runs/mqa/seed-2/config.json", "runs/mqa/seed-2/checkpoints/step-3/model.safetensors"}) {
    EXPECT_TRUE(folder.has("c/" + std::string(file))) << file;
  }
  const json r = results(folder, "c");
  EXPECT_EQ(r["seeds"], json({1, 2}));
  EXPECT_EQ(r["variants"].size(), 2u);
  // 1 layer, k and v of 2 heads, or of one, of 8 numbers of 4 bytes.
  EXPECT_EQ(r["variants"][0]["kv_cache_bytes_per_token"], 128);
  EXPECT_EQ(r["variants"][1]["kv_cache_bytes_per_token"], 64);
  EXPECT_EQ(r["command"],
            "headcount compare " + kSmallComparison + " --attention mha,mqa --seeds 2 --out c");
}

// One training, evaluated as `eval` does through each cache; parts that mla lacks give it no row.
TEST(CompareCommand, EvaluatesEachRunThroughRoundedCaches) {
  const TrainFolder folder;
  const std::string flags = "--attention gqa1,mla --seeds 2 --out c --quiet ";
  const ProgramResult result =
      compare(folder, flags + "--cache-dtype f32,int2,k=int4+v=int2 --cache-rotate off,on");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("int2 rotated"), std::string::npos) << result.out;
  const json variants = results(folder, "c")["variants"];
  EXPECT_EQ(variants[0]["rounded"].size(), 6u);
  EXPECT_EQ(variants[1]["rounded"].size(), 4u);
  const json& exact = variants[0]["rounded"][0];
  EXPECT_EQ(exact["cache"], "f32");
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(exact["val_losses"][i], variants[0]["val_losses"][i].get<double>(), 1e-5);
  const json& rounded = variants[0]["rounded"][3];
  EXPECT_EQ(rounded["cache"], "int2 rotated");
  EXPECT_EQ(rounded["kv_cache_bytes_per_token"], 2 * (2 + 2));  // k and v of 8 numbers, scales
  const ProgramResult alone = folder.headcount(
      "eval --from c/runs/gqa1/seed-2 --cache-dtype int2 --cache-rotate on --format json");
  EXPECT_EQ(json::parse(alone.out).at("loss"), rounded["val_losses"][1]) << alone.err;
  // A text's begin is enough for the question, and an evaluation is made once.
  const std::string some = flags + "--cache-dtype int2 --cache-characters ";
  EXPECT_NE(compare(folder, some + "30").out.find("on the first 30 characters"), std::string::npos);
  const std::string file = "c/runs/mla/seed-1/rounded.json";
  json saved = json::parse(folder.contents(file));
  ASSERT_EQ(saved["roundings"].size(), 1u);
  saved["roundings"]["int2"] = {7.5};
  folder.file(file, saved.dump());
  const auto loss_again = [&](const std::string& flag) -> json {
    EXPECT_EQ(compare(folder, some + flag).exit_code, 0);
    return results(folder, "c")["variants"][1]["rounded"][0]["val_losses"][0];
  };
  EXPECT_EQ(loss_again("30"), 7.5);
  EXPECT_NE(loss_again("31"), 7.5);
  folder.file(file, "{");
  EXPECT_LT(loss_again("30"), 7.5);
  EXPECT_EQ(compare(folder, some + "16").exit_code, kUsage);
  EXPECT_EQ(compare(folder, flags + "--cache-characters 30").exit_code, kUsage);
  const ProgramResult refused = compare(folder, flags + "--cache-dtype q=int4");
  EXPECT_EQ(refused.exit_code, kUsage);
  EXPECT_NE(refused.err.find("does not keep"), std::string::npos) << refused.err;
}

TEST(CompareCommand, TrainsWhatTrainTrains) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder, "--attention gqa1,mla --seeds 2 --out c --quiet").exit_code, 0);
  const ProgramResult alone = folder.train(
      "--attention gqa --kv-heads 1 --seed 2 --eval-every 0 --out alone --format json");
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  EXPECT_EQ(results(folder, "c")["variants"][0]["val_losses"][1],
            json::parse(alone.out)["val_loss"]);
  EXPECT_EQ(folder.contents("c/runs/gqa1/seed-2/metrics.jsonl"),
            folder.contents("alone/metrics.jsonl"));
}

TEST(CompareCommand, LeavesResultsThatAreReadBackWhole) {
  const TrainFolder folder;
  ASSERT_EQ(compare(folder,
                    "--attention mha,delta/mqa --layers 2 --data lookup --context 32 "
                    "--seeds 2 --out c")
                .exit_code,
            0);
  const std::string text = folder.contents("c/results.json");
  const auto json = nlohmann::ordered_json::parse(text);
  for (const char* part : {"curves", "answers_by_distance", "cache", "reading"})
    EXPECT_FALSE(json["variants"][1][part].empty()) << part;
  EXPECT_EQ(results_text(comparison_json(read_results(json))), text);
  // A report needs nothing else.
  const ProgramResult report = folder.headcount("report c/results.json --out again");
  ASSERT_EQ(report.exit_code, 0) << report.err;
  EXPECT_EQ(folder.contents("again/report.html"), folder.contents("c/report.html"));
}

// Nothing is enough that learned nothing, and no difference between such models is one.
TEST(CompareCommand, DecidesNothingBesideAReferenceThatLearnedNothing) {
  const TrainFolder folder;
  const auto verdict = [&](const std::string& flags) {
    const ProgramResult result =
        folder.headcount("compare --attention mha,mqa,mla4+0 --out c --force --quiet " + flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const json r = results(folder, "c");
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
  EXPECT_EQ(results(folder, "c")["verdict"]["metric"], "answers") << "its loss counts no other";
  EXPECT_EQ(results(folder, "c")["verdict"]["tolerance"], 5);
  EXPECT_EQ(results(folder, "c")["seeds"].size(), 5u);
  const std::string unlearned = verdict(lookups + "--warmup 0 --tolerance 90");
  EXPECT_TRUE(unlearned.starts_with("nothing can be decided: mha, the reference, has "))
      << unlearned;
  EXPECT_NE(unlearned.find("guessing has 1.3863; train longer"), std::string::npos) << unlearned;
  const std::string small =
      over_defaults(kSmallComparison, "--steps 20 --warmup 0 --heads 4 --dim 32");
  const std::string pairs = verdict(small + " --seeds 2..9 --tolerance 100");
  EXPECT_NE(pairs.find("a bigram model has "), std::string::npos) << pairs;
  EXPECT_TRUE(pairs.ends_with("lower the tolerance")) << pairs;  // 100 nats
  EXPECT_EQ(results(folder, "c")["seeds"].size(), 2u) << "more seeds do not teach it more";
}

TEST(CompareCommand, AloneAsksWhichCacheLearnsRecallAsSoon) {
  const TrainFolder folder;
  const std::string help = folder.headcount("compare --help").out;
  for (const char* shown : {"[recall]", "[mha,gqa2,mqa,mla32+0,mhax4]"})
    EXPECT_NE(help.find(shown), std::string::npos) << shown;
  const ProgramResult result =
      folder.headcount("compare --steps 2 --seeds 2 --threads 2 --quiet --format json --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json r = json::parse(result.out);
  EXPECT_EQ(r["data"], "recall");
  EXPECT_EQ(r["variants"].size(), 5u);
  EXPECT_EQ(r["variants"][3]["spec"], "mla32+0");
  EXPECT_EQ(r["variants"][3]["kv_cache_bytes_per_token"],
            r["variants"][2]["kv_cache_bytes_per_token"]);
  EXPECT_EQ(r["verdict"]["metric"], "steps");
  EXPECT_EQ(r["config"]["context"], 32);
  EXPECT_EQ(r["answer_baselines"]["guesser"], 1 / 256.0);
  // Other texts are asked for their loss, on three seeds.
  ASSERT_EQ(compare(folder, "--out d --quiet").exit_code, 0);
  const json other = results(folder, "d");
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
  const TrainFolder folder;
  const std::string by_loss = kLearning +
                              "--attention mha,mqa --seeds 2 --metric steps "
                              "--stop-at-loss 1.5 --eval-every 20 --out c";
  const ProgramResult result = compare(folder, by_loss);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json r = results(folder, "c");
  EXPECT_EQ(r["config"]["stop-at-loss"], 1.5);
  for (const json& variant : r["variants"]) {
    for (std::size_t i = 0; i < 2; ++i) {
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
  const std::string other = by_loss.substr(0, by_loss.find(" --eval")) + " --eval-every 10 --out c";
  EXPECT_NE(compare(folder, other).err.find("eval-every"), std::string::npos);
  const ProgramResult refused =
      compare(folder, "--attention mha,mqa --metric loss --stop-at-loss 1.5 --out d");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("take --metric steps"), std::string::npos) << refused.err;
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
    const TrainFolder folder;
    const ProgramResult result =
        compare(folder, "--attention mha,mqa --seeds 2 --out c " + c.flags);
    EXPECT_EQ(result.exit_code, c.exit_code) << result.err;
    for (const std::string& text : {result.out, folder.contents("c/report.html")})
      EXPECT_NE(text.find(c.shown), std::string::npos) << c.flags << "\n" << text;
    for (const std::string& text : c.missing)
      EXPECT_EQ(result.out.find(text), std::string::npos) << c.flags << "\n" << result.out;
    const json r = results(folder, "c");
    EXPECT_EQ(r["evaluated_characters"], c.shown.starts_with("Evaluated on") ? 30 : 0);
    EXPECT_TRUE(r["entropy_per_character"].is_null());
  }
}

TEST(CompareCommand, ReportsAFailedRunAndGoesOn) {
  const TrainFolder folder;
  std::filesystem::create_directories(folder / "c/runs/mha");
  folder.file("c/runs/mha/seed-1", "not a folder");
  const ProgramResult result = compare(folder, "--attention mha,mqa --seeds 2 --out c");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("mha, seed 1: "), std::string::npos) << result.out;
  const json r = results(folder, "c");
  EXPECT_EQ(r["variants"][0]["seeds"], json({2}));
  EXPECT_EQ(r["variants"][1]["seeds"], json({1, 2}));
  EXPECT_EQ(folder.contents("c/runs/mha/seed-1"), "not a folder");
}

TEST(CompareCommand, PicksTheBestOfASweepOnTextThatNobodyTrainedOn) {
  const TrainFolder folder;
  std::string text = folder.contents("text.txt");
  folder.file("text.txt", text + text + text);
  // A model learns nothing at a learning rate of zero, so the other value must be chosen.
  const ProgramResult result =
      compare(folder, "--attention mha,mqa --seeds 2 --steps 60 --sweep lr=0,1e-2 --out c");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json r = results(folder, "c");
  for (const json& variant : r["variants"]) {
    EXPECT_EQ(variant["adjusted"], "lr 1e-2");
    const json& swept = variant["sweep"];
    ASSERT_EQ(swept.size(), 2u);
    EXPECT_EQ(swept[0]["value"], "0");
    EXPECT_LT(swept[1]["loss"], swept[0]["loss"]);
    EXPECT_EQ(swept[1]["chosen"], true);
  }
  for (const std::string shown : {"lr 0", "lr 1e-2", "first tenth of the training text",
                                  "mqa has the largest lr of the sweep, 1e-2"}) {
    EXPECT_NE(result.out.find(shown), std::string::npos) << shown << "\n" << result.out;
    EXPECT_NE(folder.contents("c/report.html").find(shown), std::string::npos) << shown;
  }
  const json run = json::parse(folder.contents("c/runs/mha/lr=1e-2/seed-1/result.json"));
  EXPECT_EQ(run["tuning_characters"][0], 0);
  EXPECT_GT(run["tuning_characters"][1], 0);
  EXPECT_NE(run["tuning_loss"], run["val_loss"]);
  const ProgramResult alone = folder.train("--steps 60 --lr 1e-2 --out alone --format json");
  // The run of the sweep has not seen the first tenth of the training text, so it is another model.
  EXPECT_NE(run["val_loss"], json::parse(alone.out)["val_loss"]);
}

TEST(CompareCommand, IsPlainWhenNotOnATerminal) {
  const TrainFolder folder;
  const ProgramResult result =
      compare(folder, "--attention mha,mqa --seeds 2 --out c --format json");
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
  EXPECT_NE(result.err.find("mha, seed 1: validation loss "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("4 of 4 runs done"), std::string::npos) << result.err;
  EXPECT_EQ(json::parse(result.out), results(folder, "c"));
  EXPECT_EQ(compare(folder, "--attention mha,mqa --seeds 2 --out c2 --quiet").err, "");
}

TEST(CompareCommand, RefusesWhatItCannotDoInOneLine) {
  const struct {
    const char *flags, *message;
  } cases[] = {
      {"--attention mha,mha", "'mha' is in the list twice"},
      {"--seeds 1", "--seeds 1 gives no confidence intervals; give 2 or more, or --intervals off"},
      {"--seeds 5..3",
       "--seeds 5..3 must be a number or a range from 2 or more to a greater number"},
      {"--seeds 2..x", "--seeds must be a whole number or a range such as 3..20; 'x' is neither"},
      {"--seeds 2..4 --intervals off", "--seeds 2..4 adds seeds until intervals decide"},
      {"--attention mha,mqa --reference gqa",
       "--reference 'gqa' is not among the compared attentions"},
      {"--tolerance -1", "--tolerance must be"},
      {"--metric speed", "--metric must be"},
      {"--match half", "--match must be none, params or kv=BYTES"},
      {"--metric answers", "--metric answers: text.txt marks no answers"},
      {"--sweep lr=1e-3,fast", "--lr must be a number, is 'fast'"},
      {"--sweep lr=1e-3,1e-2 --lr 0.5",
       "--lr 0.5 changes nothing: --attention mha,gqa,mqa,mla or --sweep sets another lr"},
      {"--positions learned --rope-theta 5",
       "--rope-theta 5 rotates nothing with --positions learned; leave it out"},
      {"--attention v4x8,mha --output-projection off --o-rank 8",
       "--o-rank 8 has no effect with --output-projection off, which projects nothing"},
      {"--config init.json",
       "--config init.json has init 'run', but a comparison trains all models "
       "from random weights"},
      {"--attention mha,mqa --kv-rank 8", "--kv-rank has no effect with --attention mha,mqa"},
      {"--seed 3", "seed"},
  };
  for (const auto& c : cases) {
    const TrainFolder folder;
    folder.file("init.json", "{\"init\": \"run\"}");
    expect_refusal(compare(folder, std::string(c.flags) + " --out c"), 2, {c.message}, c.flags);
    EXPECT_FALSE(folder.has("c")) << c.flags;
  }
}

}  // namespace
}  // namespace headcount
