#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/built_in.h"
#include "train/compare/premises.h"
#include "train/compare/results.h"

namespace headcount {
namespace {

VariantResult learned_variant(const std::string& spec, const std::vector<double>& answers) {
  VariantResult v;
  v.spec = spec;
  for (const double share : answers) {
    RunResult run;
    run.seed = v.runs.size() + 1;
    run.validation_loss = 1 - share;
    run.answer_accuracy = share;
    v.runs.push_back(run);
  }
  return v;
}

ComparisonResult learned_result() {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.seeds = {1, 2, 3};
  r.baselines = Baselines{.guesser = 0.1, .copier = 0.2, .commonest = 0.25};
  r.answer_chance = 0.25;
  r.variants = {learned_variant("mha", {0.99, 1, 0.98}), learned_variant("gqa2", {0.97, 0.4, 0.96}),
                learned_variant("mqa", {0.5, 0.55, 0.6})};
  return r;
}

// The share at which runs that are compared by steps end, on any text.
TEST(Learned, IsTheShareOfAnswersAtWhichRunsEnd) {
  EXPECT_EQ(runs_that_learned(learned_variant("mha", {0.949, 0.95, 1})), 2);
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
    r.variants = {learned_variant("mha", std::vector<double>(8, 0.999)),
                  learned_variant("gqa2", {0.92, 0.952, 0.97, 0.976, 0.985, 0.99, 0.99, last})};
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

}  // namespace
}  // namespace headcount
