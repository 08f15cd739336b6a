#include "train/compare/results.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "data/built_in.h"
#include "support/message_of.h"
#include "train/compare/made_results.h"
#include "train/compare/premises.h"
#include "train/compare/verdict.h"
#include "train/run_program.h"

namespace headcount {
namespace {

ComparisonResult result() {
  ComparisonResult r = made_comparison(
      {losing("mha", 4096, {2.0, 2.2, 2.4}), losing("gqa2", 2048, {2.1, 2.3, 2.5}),
       losing("mqa", 1024, {2.2, kFailedRun, 2.9}), losing("mla48+16", 1024, {2.1, 2.25, 2.4}),
       losing("latent-bias", 5120, {})});
  r.question.reference = "mha";
  r.variants[4].failures = {"seed 1: the loss became NaN at step 3"};
  return r;
}

TEST(ComparisonSummary, PairsDifferencesBySeed) {
  ComparisonResult r = summarized(result());
  EXPECT_FALSE(r.variants[0].difference);
  // Each seed by itself is 0.1 worse, though the losses of the seeds lie 0.2 apart.
  EXPECT_NEAR(r.variants[1].difference->mean, 0.1, 1e-12);
  EXPECT_NEAR(*r.variants[1].difference->half_width, 0, 1e-12);
  EXPECT_GT(*r.variants[1].loss->half_width, 0.4);
  // Differences use the seeds that both finished.
  EXPECT_NEAR(r.variants[2].difference->mean, (0.2 + 0.5) / 2, 1e-12);
  EXPECT_FALSE(r.variants[4].difference);
  r.question.intervals = false;
  for (const VariantResult& v : summarized(r).variants)
    EXPECT_FALSE(v.loss && v.loss->half_width) << v.spec;
}

// mqa has only the seeds that decided it, and the later ones are easy.
ComparisonResult of_different_seeds() {
  ComparisonResult r =
      made_comparison({losing("mha", 8, {2.0, 2.2, 1.0, 1.2}),
                       losing("gqa2", 4, {2.1, 2.3, 1.1, 1.3}), losing("mqa", 4, {2.05, 2.25})},
                      {2, 4});
  r.seeds = {1, 2, 3, 4};
  return r;
}

TEST(ComparisonSummary, TakesMeansOverTheSeedsThatAllHave) {
  ComparisonResult r = summarized(of_different_seeds());
  EXPECT_EQ(r.common_seeds, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_NEAR(r.variants[0].loss->mean, 2.1, 1e-12);
  EXPECT_NEAR(r.variants[1].loss->mean, 2.2, 1e-12);
  EXPECT_NEAR(r.variants[2].loss->mean, 2.15, 1e-12);
  EXPECT_EQ(r.variants[1].costs.size(), 4u) << "differences are of all seeds of the attention";
  expect_parts(comparison_table(r), {"means over seeds 1 and 2, which all attentions finished;"});
  // Nothing to say where all have the same.
  r.variants.pop_back();
  r = summarized(r);
  EXPECT_EQ(comparison_table(r).find("means over"), std::string::npos);
  r.variants = {losing("mha", 8, {2}), losing("gqa2", 4, {kFailedRun, 3})};
  r = summarized(r);
  EXPECT_EQ(r.variants[1].loss->mean, 3);
  expect_parts(comparison_table(r), {"No seed was finished by all attentions"});
}

TEST(ComparisonSummary, LeavesOutTheSpeedsOfOtherBuildsAndMachines) {
  ComparisonResult r = result();
  r.version = "this build";
  r.machine = "this machine";
  for (VariantResult& v : r.variants) {
    for (RunResult& run : v.runs) {
      run.train_tokens_per_second = 100 * static_cast<double>(run.seed * run.seed);
      run.version = v.spec == "mha" && run.seed < 3 ? "another build" : r.version;
      run.machine = v.spec == "mqa" ? "another machine" : r.machine;
    }
  }
  summarize(r);
  EXPECT_EQ(r.variants[0].train_tokens_per_second, 900);  // of seed 3 alone
  EXPECT_EQ(r.variants[1].train_tokens_per_second, 400);  // the median
  EXPECT_FALSE(r.variants[2].train_tokens_per_second);
}

TEST(ComparisonSummary, TellsOfFailedRunsThatNoAttentionHas) {
  ComparisonResult r = result();
  r.failed_runs = 3;  // latent-bias has one of them
  EXPECT_EQ(notes(summarized(r)),
            (std::vector<std::string>{"2 runs at values that the sweep did not choose failed."}));
}

TEST(ComparisonTable, SaysHowEachComparesWithTheReference) {
  const ComparisonResult r = summarized(result());
  const std::string table = comparison_table(r);
  const std::vector<std::string> lines = lines_of(table);
  expect_parts(lines.at(1), {"minus mha     verdict"});
  expect_parts(lines.at(3), {"+0.1000 +- 0.0000  not enough"});
  expect_parts(lines.at(4), {" undecided "});
  EXPECT_TRUE(lines.at(6).starts_with("latent-bias    1000        5120      0 ")) << table;
  expect_parts(table, {"latent-bias, seed 1: the loss became NaN at step 3\n"});
  expect_parts(results_table(r, Format::csv), {"\nlatent-bias,\"\",0,1000,5120,,,,,,,,"});
}

// The share at which runs that are compared by steps end, on any text.
TEST(Learned, IsTheShareOfAnswersAtWhichRunsEnd) {
  ComparisonResult r = made_comparison({answering("mha", 1, {0.949, 0.95, 1})});
  const auto expect_learned = [&](int runs, const std::string& text) {
    EXPECT_EQ(runs_that_learned(r.variants[0], r), runs);
    EXPECT_EQ(learned_text(r), text);
  };
  expect_learned(2, "95 % of the answers right");
  r.config["stop-at-answers"] = 99.5;
  r.variants[0].runs[2].learned_at = 10;
  expect_learned(1, "99.5 % of the answers right");
  r.config["stop-at-loss"] = 0.25;
  expect_learned(1, "99.5 % of the answers right or a loss below 0.25");
  r.config.erase("stop-at-answers");
  expect_learned(1, "a loss below 0.25");
  r.question.metric = Metric::steps;
  expect_parts(results_table(summarized(r)), {"\nlearned: a loss below 0.25\n"});
  EXPECT_EQ(find_built_in("recall")->defaults().at("stop-at-answers"),
            100 * share_to_learn("recall"));
}

TEST(Learned, IsTheShareInTheWorstDirection) {
  ComparisonResult r = result();
  r.data = "lookup";
  r.baselines = Baselines{};
  r.variants = {answering("mha", 1, {0.999, 0.999})};
  r.variants[0].runs[0].answers_by_direction = {{0, 200, 200}, {1, 200, 198}};
  r.variants[0].runs[1].answers_by_direction = {{0, 200, 200}, {1, 200, 197}};
  EXPECT_EQ(runs_that_learned(r.variants[0], r), 1);
  expect_parts(comparison_table(summarized(r)),
               {"1 of 2", "learned: 99 % of the answers right in each direction (guessing "});
}

// One threshold makes no two clusters: some of these are just below it, and all are within a point
// of the reference. Nor does a seed far away keep the others from being counted.
TEST(Learned, DecidesNothingAndWithholdsNoInterval) {
  for (const double last : {0.99, 0.3}) {
    ComparisonResult r =
        made_comparison({answering("mha", 1, std::vector<double>(8, 0.999)),
                         answering("gqa2", 1, {0.92, 0.952, 0.97, 0.976, 0.985, 0.99, 0.99, last})},
                        {8, 8}, Metric::answers);
    r.question.tolerance = 8;
    summarize(r);
    EXPECT_EQ(runs_that_learned(r.variants[1], r), last > 0.5 ? 7 : 6);
    EXPECT_TRUE(r.variants[1].answer_accuracy->half_width);
    EXPECT_EQ(r.variants[1].verdict, Verdict::enough) << last;
  }
}

TEST(Learned, IsAColumnWhereATextHasAnswers) {
  ComparisonResult r = result();
  EXPECT_EQ(comparison_table(r).find("learned"), std::string::npos);
  r.baselines = Baselines{.guesser = 0.1, .copier = 0.3, .commonest = 0.25};
  r.entropy_per_character = 0.05;
  r.variants = {answering("mha", 1, {0.99, 1, 0.98}), answering("gqa2", 1, {0.97, 0.4, 0.96}),
                answering("mqa", 1, {0.5, 0.55, 0.6})};
  expect_parts(comparison_table(summarized(r)),
               {"above floor", "answers right %", "learned", "3 of 3", "2 of 3", "0 of 3",
                " (guessing 10.0 %, commonest answer so far 30.0 %)\n"});
  EXPECT_EQ(comparison_json(summarized(r))["variants"][1]["learned"], 2);
}

// Two blocks whose differences are 0.1 +- 0.1 and whose seeds agree: t of one degree of freedom.
TEST(ComparisonJson, HasTheIntervalThatTheTextLeaves) {
  ComparisonResult r = result();
  EXPECT_EQ(comparison_table(r).find("of text"), std::string::npos);
  for (VariantResult& v : r.variants) {
    const double apart = v.spec == "gqa2" ? 0.1 : 0;
    for (RunResult& run : v.runs)
      run.loss_by_block = {run.validation_loss - apart, run.validation_loss + apart};
  }
  summarize(r);
  const Json variants = comparison_json(r)["variants"];
  for (const int without : {0, 4})
    EXPECT_TRUE(variants[without]["paired_difference_text_ci95"].is_null());
  EXPECT_NEAR(variants[1]["paired_difference_text_ci95"].get<double>(), 12.7062 * 0.1, 1e-4);
  expect_parts(comparison_table(r), {" +- of text "});
}

// Kept studies have what was judged when they were made. Intervals of a fixed number of seeds are
// today's.
TEST(ComparisonJson, OfKeptStudiesIsJudgedAgain) {
  const std::filesystem::path folder = HEADCOUNT_FIXTURE_FOLDER "/../bench/results";
  std::size_t judged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Json json = Json::parse(read_file(entry.path())),
               again = comparison_json(read_results(json));
    EXPECT_EQ(again["verdict"]["tolerance"], json["verdict"]["tolerance"]) << entry.path();
    const bool fixed = json["verdict"]["seeds"].get<std::string>().find("..") == std::string::npos;
    for (std::size_t i = 0; i < json["variants"].size(); ++i) {
      const Json &before = json["variants"][i], &now = again["variants"][i];
      for (const char* key : {"seeds", "val_loss_mean", "val_loss_ci95", "paired_difference_mean"})
        EXPECT_EQ(now[key], before[key]) << entry.path() << " " << before["spec"] << " " << key;
      Json was = before["verdict"];
      if (was == "open") was = "undecided";  // earlier words
      if (was == "later" && before["cost_median"].is_null()) was = "not learned";
      EXPECT_TRUE(!fixed || now["verdict"] == was) << entry.path() << before["spec"];
      judged += fixed && before["verdict"].is_string();
    }
  }
  EXPECT_GT(judged, 50u);
}

TEST(ComparisonJson, OfAnEarlierVersionIsRefusedByThatVersion) {
  EXPECT_EQ(message_of([] {
              read_results({{"version", "headcount 0.0"}, {"variants", {{{"runs", 3}}}}});
            }),
            "it holds no results of a comparison in this version's form: an earlier version wrote "
            "it, headcount 0.0");
}

}  // namespace
}  // namespace headcount
