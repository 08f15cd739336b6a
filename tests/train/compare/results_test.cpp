#include "train/compare/results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "data/built_in.h"
#include "train/compare/made_results.h"
#include "train/compare/premises.h"
#include "train/compare/verdict.h"

namespace headcount {
namespace {

RunResult run(std::uint64_t seed, double loss) {
  RunResult r = made_run(seed, loss);
  r.train_tokens_per_second = 100 * static_cast<double>(seed * seed);
  return r;
}

VariantResult measured_variant(const std::string& spec, Index bytes, std::vector<RunResult> runs) {
  VariantResult v = made_variant(spec, bytes, std::move(runs));
  v.parameters = 1000;
  return v;
}

ComparisonResult result() {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.seeds = {1, 2, 3};
  r.question.reference = "mha";
  r.variants = {measured_variant("mha", 4096, {run(1, 2.0), run(2, 2.2), run(3, 2.4)}),
                measured_variant("gqa2", 2048, {run(1, 2.1), run(2, 2.3), run(3, 2.5)}),
                measured_variant("mqa", 1024, {run(1, 2.2), run(3, 2.9)}),
                measured_variant("mla48+16", 1024, {run(1, 2.1), run(2, 2.25), run(3, 2.4)}),
                measured_variant("latent-bias", 5120, {})};
  r.variants[4].failures = {"seed 1: the loss became NaN at step 3"};
  return r;
}

TEST(ComparisonSummary, PairsDifferencesBySeed) {
  ComparisonResult r = result();
  summarize(r);
  EXPECT_FALSE(r.variants[0].difference);
  // Each seed by itself is 0.1 worse, though the losses of the seeds lie 0.2 apart.
  EXPECT_NEAR(r.variants[1].difference->mean, 0.1, 1e-12);
  EXPECT_NEAR(*r.variants[1].difference->half_width, 0, 1e-12);
  EXPECT_GT(*r.variants[1].loss.half_width, 0.4);
  // Differences use the seeds that both finished.
  EXPECT_NEAR(r.variants[2].difference->mean, (0.2 + 0.5) / 2, 1e-12);
  EXPECT_FALSE(r.variants[4].difference);
  r.question.intervals = false;
  summarize(r);
  for (const VariantResult& v : r.variants) EXPECT_FALSE(v.loss.half_width) << v.spec;
}

// mqa has only the seeds that decided it, and the later ones are easy.
ComparisonResult of_different_seeds() {
  ComparisonResult r = result();
  r.question.seeds = {2, 4};
  r.seeds = {1, 2, 3, 4};
  r.variants = {measured_variant("mha", 8, {run(1, 2.0), run(2, 2.2), run(3, 1.0), run(4, 1.2)}),
                measured_variant("gqa2", 4, {run(1, 2.1), run(2, 2.3), run(3, 1.1), run(4, 1.3)}),
                measured_variant("mqa", 4, {run(1, 2.05), run(2, 2.25)})};
  return r;
}

TEST(ComparisonSummary, TakesMeansOverTheSeedsThatAllHave) {
  ComparisonResult r = of_different_seeds();
  summarize(r);
  EXPECT_EQ(r.common_seeds, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_NEAR(r.variants[0].loss.mean, 2.1, 1e-12);
  EXPECT_NEAR(r.variants[1].loss.mean, 2.2, 1e-12);
  EXPECT_NEAR(r.variants[2].loss.mean, 2.15, 1e-12);
  EXPECT_EQ(r.variants[1].costs.size(), 4u) << "differences are of all seeds of the attention";
  const std::string note =
      "Losses and answers are means over seeds 1 and 2, which all attentions finished; differences "
      "and verdicts use all seeds of an attention.";
  EXPECT_NE(comparison_table(r).find(note), std::string::npos) << comparison_table(r);
  EXPECT_EQ(comparison_json(r)["common_seeds"], (std::vector<int>{1, 2}));
  // Nothing to say where all have the same.
  r.variants.pop_back();
  summarize(r);
  EXPECT_EQ(comparison_table(r).find("means over"), std::string::npos);
}

TEST(ComparisonSummary, SaysWhereNoSeedWasFinishedByAll) {
  ComparisonResult r = of_different_seeds();
  r.variants[0].runs = {run(1, 2)};
  r.variants[1].runs = {run(2, 3)};
  r.variants.pop_back();
  summarize(r);
  EXPECT_EQ(r.variants[1].loss.mean, 3);
  EXPECT_NE(comparison_table(r).find("No seed was finished by all attentions"), std::string::npos);
}

TEST(ComparisonSummary, FindsTheParetoFront) {
  const auto front = [](ComparisonResult r) {
    summarize(r);
    std::vector<bool> marks;
    for (const VariantResult& v : r.variants) marks.push_back(v.pareto);
    return marks;
  };
  // mla has less cache and less loss than gqa2 and mqa; latent-bias never finished.
  EXPECT_EQ(front(result()), (std::vector{true, false, false, true, false}));
  ComparisonResult equal = result();
  equal.variants = {measured_variant("mha", 8, {run(1, 2), run(2, 2)}),
                    measured_variant("gqa", 8, {run(1, 2), run(2, 2)})};
  EXPECT_EQ(front(equal), (std::vector{true, true}));
  // By seed: no seed of mqa has less loss than mha, both have less than gqa2.
  ComparisonResult r = of_different_seeds();
  EXPECT_EQ(front(r), (std::vector{true, false, true}));
  // On the common seeds, as the means beside it, so that the front never rises.
  for (RunResult& run : r.variants[1].runs) run.validation_loss -= run.seed <= 2 ? 0.2 : 0;
  EXPECT_FALSE(front(r)[0]) << "gqa2 has less loss on seeds 1 and 2, which all have";
}

TEST(ComparisonSummary, LeavesOutTheSpeedsOfOtherBuildsAndMachines) {
  ComparisonResult r = result();
  r.version = "this build";
  r.machine = "this machine";
  for (VariantResult& v : r.variants) {
    for (RunResult& each : v.runs) {
      each.version = r.version;
      each.machine = v.spec == "mqa" ? "another machine" : r.machine;
    }
  }
  r.variants[0].runs[0].version = r.variants[0].runs[1].version = "another build";
  summarize(r);
  EXPECT_EQ(r.variants[0].train_tokens_per_second, 900);  // of seed 3 alone
  EXPECT_EQ(r.variants[1].train_tokens_per_second, 400);  // the median
  EXPECT_FALSE(r.variants[2].train_tokens_per_second);
  EXPECT_TRUE(comparison_json(r)["variants"][2]["train_tokens_per_second"].is_null());
}

TEST(ComparisonSummary, TellsOfFailedRunsThatNoAttentionHas) {
  ComparisonResult r = result();
  r.failed_runs = 3;  // latent-bias has one of them
  summarize(r);
  EXPECT_EQ(notes(r),
            (std::vector<std::string>{"2 runs at values that the sweep did not choose failed."}));
}

TEST(ComparisonTable, SaysHowEachComparesWithTheReference) {
  ComparisonResult r = result();
  summarize(r);
  std::istringstream table(comparison_table(r));
  std::string header, mha, gqa, mqa, mla, failed;
  for (std::string* line : {&header, &mha, &gqa, &mqa, &mla, &failed}) std::getline(table, *line);
  EXPECT_NE(header.find("minus mha     verdict"), std::string::npos) << header;
  EXPECT_NE(gqa.find("+0.1000 +- 0.0000  not enough"), std::string::npos) << gqa;
  EXPECT_NE(mqa.find(" open "), std::string::npos) << mqa;
  EXPECT_TRUE(failed.starts_with("latent-bias    1000             5120      0 ")) << failed;
  EXPECT_NE(comparison_csv(r).find("\r\nlatent-bias,\"\",0,1000,5120,,,,,,,,"), std::string::npos)
      << comparison_csv(r);
  EXPECT_NE(comparison_table(r).find("latent-bias, seed 1: the loss became NaN at step 3\n"),
            std::string::npos);
}

// The share at which runs that are compared by steps end, on any text.
TEST(Learned, IsTheShareOfAnswersAtWhichRunsEnd) {
  EXPECT_EQ(runs_that_learned(answering("mha", 1, {0.949, 0.95, 1})), 2);
  EXPECT_EQ(find_built_in("recall")->defaults().at("stop-at-answers"), 100 * kLearned);
}

// One threshold makes no two clusters: some of these are just below it, and all are within a point
// of the reference. Nor does a seed far away keep the others from being counted.
TEST(Learned, DecidesNothingAndWithholdsNoInterval) {
  for (const double last : {0.99, 0.3}) {
    ComparisonResult r = result();
    r.question.metric = Metric::answers;
    r.question.tolerance = 8;
    r.question.seeds = {8, 8};
    r.variants = {answering("mha", 1, std::vector<double>(8, 0.999)),
                  answering("gqa2", 1, {0.92, 0.952, 0.97, 0.976, 0.985, 0.99, 0.99, last})};
    summarize(r);
    EXPECT_EQ(runs_that_learned(r.variants[1]), last > 0.5 ? 7 : 6);
    EXPECT_TRUE(r.variants[1].answer_accuracy->half_width);
    EXPECT_EQ(r.variants[1].verdict, Verdict::enough) << last;
  }
}

TEST(Learned, IsAColumnWhereATextHasAnswers) {
  ComparisonResult r = result();
  EXPECT_EQ(comparison_table(r).find("learned"), std::string::npos);
  r.baselines = Baselines{.guesser = 0.1, .copier = 0.2, .commonest = 0.25};
  r.answer_chance = 0.25;
  r.entropy_per_character = 0.05;
  r.variants = {answering("mha", 1, {0.99, 1, 0.98}), answering("gqa2", 1, {0.97, 0.4, 0.96}),
                answering("mqa", 1, {0.5, 0.55, 0.6})};
  summarize(r);
  const std::string table = comparison_table(r);
  for (const char* const text :
       {"above floor", "answers right %", "learned", "3 of 3", "2 of 3", "0 of 3",
        "right without looking anything up: guessing 10.0 %, copying answers 20.0 %, the "
        "commonest value 25.0 %\nlearned: 95 % of the answers right\n"})
    EXPECT_NE(table.find(text), std::string::npos) << text << "\n" << table;
  const auto json = comparison_json(r);
  EXPECT_EQ(json["variants"][1]["learned"], 2);
  EXPECT_EQ(json["variants"][1]["answer_accuracies"].size(), 3u);
}

TEST(ComparisonCsv, HasTheSameNumberOfFieldsInEveryRow) {
  ComparisonResult r = result();
  r.entropy_per_character = 0.5;
  r.variants[0].adjusted = "ffn-dim 540, lr 0.001";
  summarize(r);
  std::istringstream csv(comparison_csv(r));
  std::ptrdiff_t fields = -1;
  for (std::string line; std::getline(csv, line);) {
    ASSERT_EQ(line.back(), '\r');
    // A comma between quotes separates nothing.
    bool quoted = false;
    std::ptrdiff_t commas = 0;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++commas;
    }
    if (fields < 0) fields = commas;
    EXPECT_EQ(commas, fields) << line;
  }
  EXPECT_GT(fields, 10);
}

// Results with a value of every kind that results.json holds.
ComparisonResult full_result() {
  ComparisonResult r = result();
  r.command = "headcount compare --data 'a \"b\"'";
  r.data = "tales";
  r.config = {{"steps", 30}, {"lr", 1e-3}, {"name", "ä"}};
  r.context = 64;
  r.steps = 30;
  r.longest_story = 80;
  r.evaluated_characters = 500;
  r.baselines = {0.25, 0.3, 0.5};
  r.answer_chance = 0.5;
  r.baseline_loss = 1.25;
  r.entropy_per_character = 0.1;
  r.hours = 0.3;
  r.version = "one";
  r.machine = "here";
  r.sweep = "lr=1,2";
  for (VariantResult& v : r.variants) {
    v.cache = nlohmann::ordered_json::parse(
        R"([[{"name": "k", "heads": 4, "width": 8, "window": 32}], []])");
    v.notes = {"it is slow"};
    v.swept = {{"1", 2.5, true}, {"2", std::nullopt, false}};
    for (RunResult& run : v.runs) {
      run.answer_accuracy = 0.9;
      run.answers_by_distance = {{8, 10, 9}, {16, 5, 1}};
      run.loss_by_position = {{0, 32, 1.5}, {32, 32, 1.0 / 3}};
      run.loss_by_block = {run.validation_loss - 0.5, run.validation_loss + 0.5};
      run.tuning_loss = 0.7;
      run.machine_seconds = 12.25;
      run.curve_steps = {10, 20, 30};
      run.curve_losses = {3, 2, run.validation_loss};
    }
  }
  r.variants[3].adjusted = "lr 2";
  r.variants[3].diverged = {2};
  r.variants[3].no_reading = "it is gone";
  r.passage =
      nlohmann::ordered_json::parse(R"({"number": 2, "characters": ["a", "\n"], "answers": null})");
  r.variants[0].reading =
      nlohmann::ordered_json::parse(R"({"seed": 1, "heads": [[{"weights": [0.1, 0.9]}], []]})");
  r.failed_runs = 2;
  r.diverged_runs = 1;
  summarize(r);
  return r;
}

TEST(ComparisonJson, IsReadBackWhole) {
  for (const bool full : {false, true}) {
    ComparisonResult r = full ? full_result() : result();
    summarize(r);
    const std::string text = results_text(comparison_json(r));
    const ComparisonResult read = read_results(nlohmann::ordered_json::parse(text));
    EXPECT_EQ(results_text(comparison_json(read)), text);
    EXPECT_EQ(comparison_table(read), comparison_table(r));
    EXPECT_EQ(comparison_csv(read), comparison_csv(r));
    EXPECT_EQ(verdict_text(read), verdict_text(r));
  }
}

// Two blocks whose differences are 0.1 +- 0.1 and whose seeds agree: t of one degree of freedom.
TEST(ComparisonJson, HasTheIntervalThatTheTextLeaves) {
  ComparisonResult r = result();
  EXPECT_EQ(comparison_table(r).find("of text"), std::string::npos);
  for (VariantResult& v : r.variants)
    for (RunResult& run : v.runs)
      run.loss_by_block = {run.validation_loss - (v.spec == "gqa2" ? 0.1 : 0),
                           run.validation_loss + (v.spec == "gqa2" ? 0.1 : 0)};
  summarize(r);
  const auto variants = comparison_json(r)["variants"];
  EXPECT_TRUE(variants[0]["paired_difference_text_ci95"].is_null());
  EXPECT_NEAR(variants[1]["paired_difference_text_ci95"].get<double>(), 12.7062 * 0.1, 1e-4);
  EXPECT_TRUE(variants[4]["paired_difference_text_ci95"].is_null());
  EXPECT_NE(comparison_table(r).find(" +- of text "), std::string::npos) << comparison_table(r);
}

TEST(ComparisonJson, HasALineForEachArrayOfNumbers) {
  const std::string text = results_text(comparison_json(full_result()));
  EXPECT_NE(text.find("\n      \"val_losses\": [2.0,2.2,2.4],\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\"weights\": [0.1,0.9]\n"), std::string::npos) << text;
}

TEST(ComparisonJson, OfEarlierVersionsIsRead) {
  const std::filesystem::path folder = HEADCOUNT_FIXTURE_FOLDER "/../bench/results";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const auto json = nlohmann::ordered_json::parse(read_file(entry.path()));
    const ComparisonResult read = read_results(json);
    // As text, in which costs of runs that did not learn are null.
    const auto again = nlohmann::ordered_json::parse(comparison_json(read).dump());
    for (std::size_t i = 0; i < read.variants.size(); ++i) {
      for (const auto& [key, value] : json["variants"][i].items()) {
        if (key == "attention" || key.starts_with("decode")) continue;  // not read any more
        EXPECT_EQ(again["variants"][i][key], value) << entry.path() << " " << key;
      }
    }
    ++files;
  }
  EXPECT_GT(files, 10u);
}

TEST(ComparisonJson, OfSomethingElseIsRefused) {
  for (const char* text : {"[]", "{}", "null", R"({"variants": []})", R"({"command": 3})"})
    EXPECT_THROW(read_results(nlohmann::ordered_json::parse(text)), DataError) << text;
}

}  // namespace
}  // namespace headcount
