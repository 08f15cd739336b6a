// label: unsanitized
// headcount compare as a user runs it, on models that train in milliseconds.
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "train/compare/comparison_folder.h"

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
  for (const char* file : {"report.html", "runs/mha/seed-1/metrics.jsonl",
                           "runs/gqa1/seed-2/checkpoints/step-3/model.safetensors"})
    EXPECT_TRUE(folder.has("c/" + std::string(file))) << file;
  const json r = folder.results();
  EXPECT_EQ(r["seeds"], json({1, 2}));
  // 1 layer, k and v of 2 heads, or of one, of 8 numbers of 4 bytes.
  EXPECT_EQ(r["variants"][0]["kv_cache_bytes_per_token"], 128);
  EXPECT_EQ(r["variants"][1]["kv_cache_bytes_per_token"], 64);
  EXPECT_EQ(r["command"], "headcount " + ComparisonFolder::line(flags));
  EXPECT_EQ(lines_of(folder.contents("c/results.json")).size(), 1u);
  expect_parts(folder.contents("c/report.html"),
               {"<p>Of each token, a layer of mha caches 2 keys and 2 values of 8 numbers; one of "
                "gqa1 caches 1 key and 1 value of 8 numbers.</p>"});
  const json alone = folder.object(
      TrainFolder::train_line("--attention gqa --kv-heads 1 --seed 2 --eval-every 0 --out alone"));
  const json& run = r["variants"][1]["runs"][1];
  EXPECT_EQ(run["val_loss"], alone["val_loss"]) << "trains what train trains";
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
  const ProgramResult result = folder.compared(flags +
                                               "--wide --cache-rotate off,on --cache-dtype "
                                               "f32,int2,k=int4+v=int2,each:int4");
  expect_parts(result.out, {"int2 rotated", "KL, nats", "percentile"});
  const json variants = folder.results()["variants"];
  EXPECT_EQ(variants[1]["rounded"].size(), 8u);
  EXPECT_EQ(variants[1]["rounded"][5]["cache"], "int4+layer1=f32");
  for (const json& run : variants[0]["runs"])
    EXPECT_NEAR(run["rounded"][0]["val_loss"], run["val_loss"].get<double>(), 1e-5);
  const json& rounded = variants[0]["rounded"][3];
  EXPECT_EQ(rounded["cache"], "int2 rotated");
  EXPECT_EQ(rounded["kv_cache_bytes_per_token"], 2 * (2 + 2));  // k and v of 8 numbers, scales
  const json alone =
      folder.object("eval --from c/runs/gqa1/seed-2 --cache-dtype int2 --cache-rotate on");
  EXPECT_EQ(alone["loss"], variants[0]["runs"][1]["rounded"][3]["val_loss"]);
  EXPECT_EQ(alone["change"], variants[0]["runs"][1]["rounded"][3]["change"]);
  // A text's begin is enough for the question, and an evaluation is made once.
  const std::string some = flags + "--cache-dtype int2 --cache-characters ";
  expect_parts(folder.compared(some + "30").out, {"on the first 30 characters"});
  const std::string file = "c/runs/mla/seed-1/run.json";
  json saved = folder.json(file);
  for (json& rounding : saved["result"]["rounded"]) rounding["val_loss"] = 7.5;
  const auto loss_again = [&](const std::string& flag) -> json {
    folder.file(file, saved.dump());
    folder.compared(some + flag);
    return folder.results()["variants"][1]["runs"][0]["rounded"][0]["val_loss"];
  };
  EXPECT_EQ(loss_again("30"), 7.5);
  EXPECT_LT(loss_again("31"), 7.5);
  const json known = std::exchange(saved["version"], "another");
  EXPECT_LT(loss_again("30"), 7.5);
  saved["version"] = known;
  for (json& rounding : saved["result"]["rounded"]) rounding.erase("change");
  EXPECT_LT(loss_again("30"), 7.5) << "not compared with the unrounded model";
}

// Nothing is enough that learned nothing, and no difference between such models is one.
TEST(CompareCommand, DecidesNothingBesideAReferenceThatLearnedNothing) {
  const ComparisonFolder folder;
  const auto verdict = [&](const std::string& flags) {
    const ProgramResult result =
        folder.compared(flags + " --seeds 2..9 --tolerance 100 --force --wide");
    const json r = folder.results();
    EXPECT_TRUE(r["verdict"]["enough"].is_null()) << flags;
    EXPECT_EQ(r["variants"][1]["verdict"], "undecided") << flags;
    EXPECT_EQ(r["seeds"].size(), 2u) << "more seeds do not teach it more";
    const std::string text = r["verdict"]["text"][0], known = "nothing can be decided: ";
    EXPECT_TRUE(result.err.starts_with("nothing will be decided: " + text.substr(known.size())))
        << "said before the first step\n"
        << result.err;
    EXPECT_TRUE(result.out.ends_with("verdict: " + text + "\n")) << result.out;
    return text;
  };
  EXPECT_EQ(verdict("--warmup 5"),
            "nothing can be decided: the 3 steps are fewer than the warm-up of 5; train longer or "
            "shorten the warm-up");
  expect_parts(verdict("--warmup 0"),
               {"a bigram model has ", "; no loss is so much lower: lower the tolerance"});
}

// Runs that read their text again and again are evaluated on the way, which shows their turn.
TEST(CompareCommand, DecidesNothingBesideAReferenceThatOverfits) {
  const ComparisonFolder folder;
  const std::string text = folder.contents("text.txt");
  folder.file("text.txt", text.substr(0, 300));
  const ProgramResult result = folder.compared("--steps 400 --dim 32 --lr 2e-2 --batch 8");
  const json r = folder.results();
  const auto evaluations = [](const json& results) {
    return results["variants"][0]["runs"][0]["evaluations"];
  };
  EXPECT_EQ(evaluations(r).size(), 10u);
  EXPECT_EQ(evaluations(r)[1]["step"], 80);
  expect_parts(result.out, {"verdict: nothing can be decided: mha, the reference, overfits: its"});
  expect_no_parts(result.out, {"train longer"});
  EXPECT_EQ(r["variants"][0]["may_overfit"], true);
  folder.compared("--steps 4 --force");  // which do not read it twice
  EXPECT_EQ(evaluations(folder.results()).size(), 1u);
}

// More attentions and seeds, and another question about the runs, go on; fewer, and other settings,
// would replace the results of the runs that are there.
TEST(CompareCommand, RefusesToReplaceTheResultsOfAnotherComparison) {
  const ComparisonFolder folder;
  const std::string first = "--attention mha,mqa --steps 3";
  folder.compared(first);
  const std::string results = folder.contents("c/results.json");
  const std::pair<const char*, const char*> others[] = {
      {"--attention gqa1 --steps 4", "with steps 3, not 4"},
      {"--attention gqa1 --lr 0.5", "with lr 0.001, not 0.5"},
      {"--attention gqa1 --shards 2", "with shards 0, not 2"},
      {"--attention gqa1 --sweep lr=1e-3,1e-2", "with sweep none, not lr=1e-3,1e-2"},
      {"--attention gqa1,mha --match params", "with match none, not params"},
      {"--attention gqa1 --data other.txt", "on another text"},
      {"--attention mha", "with mqa: that was"},
      {"--attention mha,mqa --seeds 1 --intervals off", "with 2 seeds, not 1"}};
  folder.file("other.txt", folder.contents("text.txt") + folder.contents("text.txt"));
  for (const auto& [flags, what] : others) {
    const std::string other = ComparisonFolder::line(flags);
    folder.expect_refusal(other, kUsage,
                          {"c has the results of another comparison, ", what,
                           ": that was headcount " + ComparisonFolder::line(first) +
                               ", and this is headcount " + other,
                           "name another folder with --out, or add --force"});
    EXPECT_EQ(folder.contents("c/results.json"), results) << flags;
  }
  folder.compared("--attention gqa1,mha,mqa --seeds 3 --tolerance 0.5 --eval-every 2");
  EXPECT_EQ(folder.results()["seeds"], json({1, 2, 3}));
  folder.compared("--attention gqa1 --steps 4 --force");
  EXPECT_EQ(folder.results()["config"]["steps"], 4);
  // Old results do not stand in the way of a comparison that replaces them and was stopped.
  EXPECT_EQ(folder.signalled(ComparisonFolder::line("--steps 5 --jobs 1 --force"), 2, SIGTERM),
            143);
  folder.compared("--steps 5 --jobs 1");
}

// Without its results, a comparison's folder is still one; damaged ones are never taken for none.
TEST(CompareCommand, NamesDamagedResultsAndWritesThoseThatAreGone) {
  const ComparisonFolder folder;
  folder.compared("");
  const std::string whole = folder.contents("c/results.json");
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), std::string("[]"), std::string("{\"a\": NaN}"),
        std::string("\0\x1b", 2), std::string("{\"variants\": 3}")}) {
    folder.file("c/results.json", damaged);
    folder.expect_refusal(ComparisonFolder::line(""), kData,
                          {"c/results.json cannot be read: ", "; remove it, or add --force"});
  }
  std::filesystem::remove(folder / "c/results.json");
  folder.compared("");
  EXPECT_EQ(without_timing(folder.contents("c/results.json")), without_timing(whole));
  folder.expect_refusal(ComparisonFolder::line("--out c/runs/mha/seed-1"), kUsage,
                        {"--out c/runs/mha/seed-1 is the folder of a run; name another"});
}

TEST(CompareCommand, AloneAsksWhichCacheLearnsRecallAsSoon) {
  const ComparisonFolder folder;
  folder.done("compare --steps 2 --seeds 2 --threads 2 --quiet --out c");
  const json r = folder.results();
  EXPECT_EQ(r["data"], "recall");
  EXPECT_EQ(r["variants"].size(), 2u);
  EXPECT_EQ(r["variants"][1]["spec"], "mqa");
  EXPECT_EQ(r["verdict"]["metric"], "steps");
  EXPECT_EQ(r["config"]["context"], 32);
  EXPECT_NEAR(r["answer_baselines"]["guesser"].get<double>(), 1 / 26.0, 1e-12);
  for (const char* part : {"cache", "reading"})
    EXPECT_FALSE(r["variants"][1][part].empty()) << part;
  for (const char* part : {"curve_steps", "answers_by_distance"})
    EXPECT_FALSE(r["variants"][1]["runs"][0][part].empty()) << part;
  folder.done("report c/results.json --out again");
  EXPECT_EQ(folder.contents("again/report.html"), folder.contents("c/report.html"))
      << "a report needs nothing else";
  // Of lookups the number of KV heads is compared, at equal bytes.
  const json lookups = folder.object(
      "compare --data lookup --steps 2 --seeds 2 --threads 2 "
      "--eval-characters 1k --quiet --out e");
  EXPECT_EQ(lookups["verdict"]["metric"], "steps");
  EXPECT_EQ(lookups["config"]["directions"], 6);
  for (const json& variant : lookups["variants"])
    EXPECT_EQ(variant["kv_cache_bytes_per_token"], 256) << variant["spec"];
  // Other texts are asked for their loss, on three seeds, and so is recall if it is told to be: its
  // runs then do not end when they have learned.
  for (const std::string& flags : {TrainFolder::small("--threads 2"),
                                   std::string("--data recall --metric loss --attention mha,mqa "
                                               "--steps 2 --eval-characters 2k --threads 2")}) {
    const json other = folder.object("compare --quiet --force --out d " + flags);
    EXPECT_EQ(other["seeds"], json({1, 2, 3}));
    EXPECT_EQ(other["verdict"]["metric"], "loss");
    EXPECT_EQ(other["config"].value("stop-at-answers", 0.0), 0);
    EXPECT_EQ(other["variants"][1]["runs"].size(), 3u);
  }
}

TEST(CompareCommand, ByStepsEndsRunsThatHaveLearned) {
  const ComparisonFolder folder;
  const std::string by_loss = kLearning + "--metric steps --stop-at-loss 1.5 ";
  folder.compared(by_loss + "--eval-every 20");
  const json variants = folder.results()["variants"];
  for (const json& variant : variants) {
    for (const json& run : variant["runs"]) {
      EXPECT_LT(run["learned_at"], 400);
      const json& evaluations = run["evaluations"];
      ASSERT_EQ(evaluations.size(), run["learned_at"].get<int>() / 20u);
      for (const json& at : evaluations)
        EXPECT_EQ(at["loss"] < 1.5, at["step"] == run["learned_at"]);
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
    EXPECT_LT(variant["sweep"][1]["loss"], variant["sweep"][0]["loss"]);
    EXPECT_EQ(variant["sweep"][1]["chosen"], true);
  }
  for (const std::string& shown : {result.out, folder.contents("c/report.html")})
    expect_parts(shown, {"lr 0", "mqa has the largest lr of the sweep, 1e-2"});
  const json record = folder.json("c/runs/mha/lr=1e-2/seed-1/run.json"), run = record["result"];
  EXPECT_GT(record["tuning_characters"], 0);
  EXPECT_NE(run["tuning_loss"], run["val_loss"]);
  const json alone = folder.object(TrainFolder::train_line("--steps 60 --lr 1e-2 --out alone"));
  EXPECT_NE(run["val_loss"], alone["val_loss"])
      << "the run of the sweep has not seen the first tenth of the training text";
}

TEST(CompareCommand, RefusesWhatItCannotDoInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"--attention mha,mha", "'mha' is in the list twice"},
      {"--seeds 1", "--seeds 1 gives no confidence intervals; give 2 or more, or --intervals off"},
      {"--seeds 2..4 --intervals off", "--seeds 2..4 adds seeds until intervals decide"},
      {"--reference gqa", "--reference 'gqa' is not among the compared attentions"},
      {"--metric answers", "--metric answers: text.txt marks no answers"},
      {"--metric loss --stop-at-loss 1.5", "take --metric steps"},
      {"--sweep lr=1e-3,1e-2 --lr 0.5", "--lr 0.5 changes nothing: --attention mha,mqa or --sweep"},
      {"--config init.json", "but a comparison trains all models from random weights"},
      {"--kv-rank 8", "--kv-rank has no effect with --attention mha,mqa"},
      {"--seed 3", "seed"},
      {"--cache-characters 30", "--cache-characters goes with --cache-dtype"},
      {"--cache-dtype int2 --cache-characters 16", "--cache-characters"},
      {"--attention mla --cache-dtype q=int4", "does not keep"},
      {"--cache-dtype int4+layer2=bf16", "--cache-dtype names layer 2, the model has 1"},
      {"--cache-dtype each:int2,int2", "--cache-dtype has the cache int2 twice"},
      {"--cache-dtype int8,int4,int8", "--cache-dtype has the cache int8 twice"},
      {"--cache-dtype k=int4+v=int2,v=int2+k=int4", "has the cache v=int2+k=int4 twice"},
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
