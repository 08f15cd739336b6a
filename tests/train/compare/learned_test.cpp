#include "train/compare/learned.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
  r.answer_chance = 0.25;
  r.variants = {learned_variant("mha", {0.99, 1, 0.98}), learned_variant("gqa2", {0.97, 0.4, 0.96}),
                learned_variant("mqa", {0.5, 0.55, 0.6})};
  return r;
}

TEST(Learned, IsNineTenthsOfTheWayFromChanceToAllAnswers) {
  EXPECT_DOUBLE_EQ(learned_from(0), 0.9);
  EXPECT_DOUBLE_EQ(learned_from(0.25), 0.925);
  EXPECT_EQ(runs_that_learned(learned_variant("mha", {0.924, 0.926, 1}), 0.25), 2);
  EXPECT_FALSE(runs_that_learned(learned_variant("mha", {1}), std::nullopt));
}

TEST(Learned, HasNoIntervalWhereSomeSeedsLearnedAndSomeDidNot) {
  ComparisonResult r = learned_result();
  summarize(r);
  EXPECT_TRUE(r.variants[0].answer_accuracy->half_width);
  EXPECT_TRUE(r.variants[0].loss.half_width);
  EXPECT_FALSE(r.variants[1].answer_accuracy->half_width);
  EXPECT_FALSE(r.variants[1].loss.half_width);
  EXPECT_FALSE(r.variants[1].difference->half_width);
  EXPECT_TRUE(r.variants[2].answer_accuracy->half_width);  // one heap: none of them learned it
  EXPECT_TRUE(r.variants[2].difference->half_width);
}

TEST(Learned, LeavesNoIntervalOfDifferencesFromABimodalOne) {
  ComparisonResult r = learned_result();
  std::swap(r.variants[0], r.variants[1]);
  summarize(r);
  EXPECT_FALSE(r.variants[1].difference->half_width);
  EXPECT_FALSE(r.variants[2].difference->half_width);
  EXPECT_TRUE(r.variants[2].loss.half_width);
}

// The reference's fourth seed, which another attention asked for, says nothing of three.
TEST(Learned, KeepsIntervalsOfDifferencesFromSeedsThatAgree) {
  ComparisonResult r = learned_result();
  r.variants[0] = learned_variant("mha", {0.99, 1, 0.98, 0.4});
  summarize(r);
  EXPECT_FALSE(r.variants[0].loss.half_width);
  EXPECT_TRUE(r.variants[2].difference->half_width);
}

TEST(Learned, IsAColumnAndANote) {
  ComparisonResult r = learned_result();
  summarize(r);
  const std::string table = comparison_table(r);
  for (const char* const text :
       {"learned", "3 of 3", "2 of 3", "0 of 3",
        "answers: chance 25.0 %, ceiling 100 %; learned: 92.5 % or more",
        "gqa2: 2 of 3 seeds learned it (97.0, 40.0, 96.0 % right), so its means have no interval."})
    EXPECT_NE(table.find(text), std::string::npos) << text << "\n" << table;
  const auto json = comparison_json(r);
  EXPECT_EQ(json["variants"][1]["learned"], 2);
  EXPECT_EQ(json["variants"][1]["answer_accuracies"].size(), 3u);
  EXPECT_TRUE(json["variants"][1]["val_loss_ci95"].is_null());
}

TEST(Learned, IsNotAskedOfATextWithoutAnswers) {
  ComparisonResult r = learned_result();
  r.answer_chance.reset();
  for (VariantResult& v : r.variants)
    for (RunResult& run : v.runs) run.answer_accuracy.reset();
  summarize(r);
  EXPECT_TRUE(r.variants[1].loss.half_width);
  EXPECT_EQ(comparison_table(r).find("learned"), std::string::npos);
}

}  // namespace
}  // namespace headcount
