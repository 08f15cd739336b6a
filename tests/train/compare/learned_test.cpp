// Runs that learned to answer, by the share of right answers and by steps.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/built_in.h"
#include "train/compare/made_results.h"
#include "train/compare/premises.h"
#include "train/compare/verdict.h"

namespace headcount {
namespace {

ComparisonResult learned_result() {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.seeds = {1, 2, 3};
  r.baselines = Baselines{.guesser = 0.1, .copier = 0.2, .commonest = 0.25};
  r.answer_chance = 0.25;
  r.variants = {answering("mha", 1, {0.99, 1, 0.98}), answering("gqa2", 1, {0.97, 0.4, 0.96}),
                answering("mqa", 1, {0.5, 0.55, 0.6})};
  return r;
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
    ComparisonResult r = learned_result();
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

TEST(Learned, IsAColumn) {
  ComparisonResult r = learned_result();
  summarize(r);
  const std::string table = comparison_table(r);
  for (const char* const text :
       {"learned", "3 of 3", "2 of 3", "0 of 3",
        "right without looking anything up: guessing 10.0 %, copying answers 20.0 %, the "
        "commonest value 25.0 %\nlearned: 95 % of the answers right\n"})
    EXPECT_NE(table.find(text), std::string::npos) << text << "\n" << table;
  const auto json = comparison_json(r);
  EXPECT_EQ(json["variants"][1]["learned"], 2);
  EXPECT_EQ(json["variants"][1]["answer_accuracies"].size(), 3u);
}

TEST(Learned, IsNotAskedOfATextWithoutAnswers) {
  ComparisonResult r = learned_result();
  r.baselines.reset();
  r.answer_chance.reset();
  for (VariantResult& v : r.variants)
    for (RunResult& run : v.runs) run.answer_accuracy.reset();
  summarize(r);
  EXPECT_TRUE(r.variants[1].loss.half_width);
  EXPECT_EQ(comparison_table(r).find("learned"), std::string::npos);
}

// A run of 400 steps that learned at `step`; 0: it did not.
RunResult learned_run(std::uint64_t seed, Index step) {
  RunResult r = made_run(seed, 0.1, step > 0 ? 0.96 : 0.4);
  r.evaluations = {{100, 2, 0.1}, {step > 0 ? step : 400, r.validation_loss, r.answer_accuracy}};
  if (step > 0) r.learned_at = step;
  return r;
}

ComparisonResult compared_by_steps() {
  ComparisonResult r = decided_comparison();
  r.seeds = {1, 2, 3, 4, 5};
  r.steps = 400;
  r.question.metric = Metric::steps;
  r.question.seeds = {5, 10};
  const auto runs = [](const std::vector<Index>& steps) {
    std::vector<RunResult> all;
    for (const Index step : steps) all.push_back(learned_run(all.size() + 1, step));
    return all;
  };
  r.variants = {made_variant("mha", 1024, runs({100, 110, 100, 100, 100})),
                made_variant("mqa", 256, runs({100, 120, 100, 90, 110})),
                made_variant("mhax4", 256, runs({300, 200, 320, 0, 250})),
                made_variant("delta", 16, runs({0, 0, 300, 0, 0})),
                made_variant("gqa2", 512, runs({100, 200, 100, 100, 100}))};
  summarize(r);
  return r;
}

TEST(StepsToLearn, AreJudgedBySeedsAlsoWhereRunsDoNotLearn) {
  const ComparisonResult r = compared_by_steps();
  EXPECT_EQ(
      verdict_clauses(r),
      (std::vector<std::string>{
          "mqa is enough: 25 % of mha's KV cache, in 100 steps, +0 % (5 of 5 seeds below 25 %)",
          "mhax4 learns later, in 300 steps, +200 % (0 of 5 seeds below 25 %)",
          "delta does not learn in 400 steps (0 of 5 seeds below 25 %)",
          "gqa2 is open: it learns in 100 steps, +0 % (4 of 5 seeds below 25 %)"}));
  const std::string table = comparison_table(r);
  for (const char* const cell : {"100 (90 to 120)", "300 (200 to > 400)", "> 400 (300 to > 400)",
                                 "+200 (+82 to more)", "later"})
    EXPECT_NE(table.find(cell), std::string::npos) << cell << "\n" << table;
  EXPECT_NE(comparison_csv(r).find(",later,"), std::string::npos) << comparison_csv(r);
}

TEST(StepsToLearn, AreNotComparedWithAReferenceThatDidNotLearn) {
  ComparisonResult r = compared_by_steps();
  r.question.reference = "delta";
  summarize(r);
  EXPECT_EQ(verdict_text(r),
            "nothing can be decided: delta, the reference, does not learn in 400 steps on 4 of 5 "
            "seeds; train longer");
  EXPECT_EQ(cost_of(learned_run(1, 0), learned_run(1, 0), Metric::steps), std::nullopt);
  EXPECT_EQ(cost_of(learned_run(1, 100), learned_run(1, 0), Metric::steps), -75);
}

}  // namespace
}  // namespace headcount
