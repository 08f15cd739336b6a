#include "train/compare/verdict.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "train/compare/made_results.h"
#include "train/compare/premises.h"
#include "train/units.h"

namespace headcount {
namespace {

TEST(SeedRange, IsANumberOrTwo) {
  EXPECT_EQ(SeedRange::parse("5").text(), "5");
  EXPECT_EQ(SeedRange::parse("3..20").last, 20);
  for (const char* text : {"", "0", "20..3", "3..3", "1..5", "3..", "..3", "3...5", "three"})
    EXPECT_THROW(SeedRange::parse(text), SettingError) << text;
}

ComparisonResult answered_comparison() {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.question.metric = Metric::answers;
  r.question.seeds = {5, 10};
  r.variants = {answering("mha", 1024, {0.99, 0.98, 0.99, 0.98, 0.99}),
                answering("mqa", 256, {0.989, 0.979, 0.99, 0.978, 0.991}),
                answering("mla8+4", 96, {0.39, 0.36, 0.38, 0.35, 0.4}),
                answering("gqa2", 512, {0.985, 0.975, 0.985, 0.975, 0.3})};
  return r;
}

// Runs of 400 steps by the step at which each learned; 0: it did not.
VariantResult learning(const std::string& spec, Index bytes, const std::vector<Index>& steps) {
  std::vector<RunResult> runs;
  for (const Index step : steps) {
    RunResult& run = runs.emplace_back(made_run(runs.size() + 1, 0.1, step > 0 ? 0.96 : 0.4));
    run.evaluations = {{100, 2, 0.1}, {step > 0 ? step : 400, 0.1, run.answer_accuracy}};
    if (step > 0) run.learned_at = step;
  }
  return made_variant(spec, bytes, std::move(runs));
}

ComparisonResult compared_by_steps() {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.seeds = {1, 2, 3, 4, 5};
  r.steps = 400;
  r.question.metric = Metric::steps;
  r.question.seeds = {5, 10};
  r.variants = {learning("mha", 1024, {100, 110, 100, 100, 100}),
                learning("mqa", 256, {100, 120, 100, 90, 110}),
                learning("mhax4", 256, {300, 200, 320, 0, 250}),
                learning("delta", 16, {0, 0, 300, 0, 0}),
                learning("gqa2", 512, {100, 200, 100, 100, 100})};
  return r;
}

using Change = std::function<void(ComparisonResult&)>;

std::string text_after(ComparisonResult r, const Change& change) {
  change(r);
  summarize(r);
  return verdict_text(r);
}

void without_runs_of_the_reference(ComparisonResult& r) { r.variants[2].runs.clear(); }

TEST(VerdictText, OfLossesNamesTheCheapestThatIsEnoughThenTheOthers) {
  const std::string none = "no attention is shown to be enough";
  const struct {
    Change change;
    std::string text;
  } cases[] = {
      {[](ComparisonResult&) {},
       "mqa is enough: 25 % of mha's KV cache, at +0.003 +- 0.000 (tolerance 0.010); mla8+4 is "
       "not: +0.052 +- 0.000; gqa2 is open: +0.005 +- 0.013"},
      {[](ComparisonResult& r) {
         r.question.reference = "mqa";
         r.question.tolerance = 0.1;
       },
       "mla8+4 is enough: 38 % of mqa's KV cache, at +0.049 +- 0.000 (tolerance 0.100); gqa2 is "
       "too: +0.002 +- 0.013; mha is too: -0.003 +- 0.000"},
      {[](ComparisonResult& r) {
         r.question.tolerance = 0.001;
         r.variants.pop_back();
       },
       none + " (tolerance 0.0010); mla8+4 is not enough: +0.0520 +- 0.0000; mqa is not enough: "
              "+0.0030 +- 0.0000"},
      {[](ComparisonResult& r) { r.question.intervals = false; },
       none + " (tolerance 0.010); mla8+4 is open: +0.052; mqa is open: +0.003; gqa2 is open: "
              "+0.005"},
      {without_runs_of_the_reference, "mha, the reference, has no finished run"},
      {[](ComparisonResult& r) {
         without_runs_of_the_reference(r);
         r.question.tolerance = 0.01;
       },
       "mha, the reference, has no finished run"},
      {[](ComparisonResult& r) {
         r.variants[1].runs.pop_back();
         r.variants[1].diverged = {3};
       },
       none + " (tolerance 0.010); mla8+4 is not enough: +0.052 +- 0.000; mqa is open: +0.003 +- "
              "0.000, 1 run diverged; gqa2 is open: +0.005 +- 0.013"},
      {[](ComparisonResult& r) {
         r.variants[1].runs.clear();
         r.variants[1].diverged = {1, 2, 3};
       },
       none + " (tolerance 0.010); mla8+4 is not enough: +0.052 +- 0.000; mqa is not enough: 3 "
              "runs diverged, none finished; gqa2 is open: +0.005 +- 0.013"},
  };
  for (const auto& c : cases) EXPECT_EQ(text_after(decided_comparison(), c.change), c.text);
  // No more decimals than a double has.
  const std::string tiny =
      text_after(decided_comparison(), [](ComparisonResult& r) { r.question.tolerance = 1e-300; });
  EXPECT_TRUE(tiny.starts_with(none + " (tolerance 0.000000000000000);")) << tiny;
}

TEST(VerdictText, OfAnswersCountsSeedsBelowTheToleranceAndRunsThatDivergedAsLost) {
  const std::string enough =
      "mqa is enough: 25 % of mha's KV cache, at +0.1 points lost (5 of 5 seeds below 5.0); ";
  const struct {
    Change change;
    std::string text;
  } cases[] = {
      {[](ComparisonResult& r) {
         r.question.seeds = {5, 5};
       },
       enough + "mla8+4 is not: +61.0 points lost (0 of 5 seeds below 5.0); gqa2 is open: +0.5 "
                "points lost (4 of 5 seeds below 5.0)"},
      {[](ComparisonResult& r) {
         r.variants[1].runs.resize(2);
         r.variants[1].diverged = {3, 4, 5};
         r.variants[2].runs.clear();
         r.variants[2].diverged = {1, 2, 3, 4, 5};
       },
       "no attention is shown to be enough (tolerance 5.0); mla8+4 is not enough: 5 runs "
       "diverged, none finished; mqa is open: +0.1 points lost (2 of 5 seeds below 5.0), 3 runs "
       "diverged; gqa2 is open: +0.5 points lost (4 of 5 seeds below 5.0)"},
      // No seed counts on which the reference diverged, too.
      {[](ComparisonResult& r) {
         for (VariantResult& v : r.variants) v.runs.resize(4);
         r.variants.resize(2);
         for (VariantResult& v : r.variants) v.diverged = {5};
       },
       "no attention is shown to be enough (tolerance 5.0); mqa is open: +0.1 points lost (4 of 4 "
       "seeds below 5.0), 1 run diverged"},
      // Of many attentions, only the cheapest has its cost.
      {[](ComparisonResult& r) {
         r.question.seeds = {5, 5};
         for (const char* spec : {"gqa4", "gqa8", "mfa"})
           r.variants.push_back(answering(spec, 768, {0.985, 0.975, 0.985, 0.975, 0.98}));
         r.variants.push_back(answering("tpa", 100, {0.3, 0.3, 0.3, 0.3, 0.3}));
       },
       enough + "enough too: gqa4, gqa8 and mfa; not enough: mla8+4 and tpa; open: gqa2"},
  };
  for (const auto& c : cases) EXPECT_EQ(text_after(answered_comparison(), c.change), c.text);
}

TEST(VerdictText, OfStepsCountsSeedsAlsoWhereRunsDoNotLearn) {
  EXPECT_EQ(text_after(compared_by_steps(), [](ComparisonResult&) {}),
            "mqa is enough: 25 % of mha's KV cache, in 100 steps, +0 % (5 of 5 seeds below 25 %); "
            "mhax4 learns later, in 300 steps, +200 % (0 of 5 seeds below 25 %); delta does not "
            "learn in 400 steps (0 of 5 seeds below 25 %); gqa2 is open: it learns in 100 steps, "
            "+0 % (4 of 5 seeds below 25 %)");
  EXPECT_EQ(
      text_after(compared_by_steps(), [](ComparisonResult& r) { r.question.reference = "delta"; }),
      "nothing can be decided: delta, the reference, does not learn in 400 steps on 4 of 5 seeds; "
      "train longer");
  const RunResult learned = learning("", 1, {100}).runs[0],
                  not_learned = learning("", 1, {0}).runs[0];
  EXPECT_EQ(cost_of(not_learned, not_learned, Metric::steps), std::nullopt);
  EXPECT_EQ(cost_of(learned, not_learned, Metric::steps), -75);
}

TEST(VerdictJson, HasWhatTheTextAndTheTableSay) {
  ComparisonResult losses = decided_comparison(), answers = answered_comparison(),
                   steps = compared_by_steps();
  for (ComparisonResult* r : {&losses, &answers, &steps}) summarize(*r);
  const auto json = comparison_json(losses);
  EXPECT_EQ(json["verdict"]["text"], verdict_text(losses));
  EXPECT_EQ(json["verdict"]["enough"], "mqa");
  EXPECT_EQ(json["verdict"]["reference"], "mha");
  EXPECT_NEAR(json["verdict"]["tolerance"].get<double>(), 0.01001, 1e-12);
  EXPECT_EQ(json["variants"][0]["verdict"], "not enough");
  EXPECT_EQ(json["variants"][1]["verdict"], "enough");
  EXPECT_TRUE(json["variants"][2]["verdict"].is_null());
  EXPECT_EQ(json["variants"][3]["verdict"], "open");
  EXPECT_EQ(json["variants"][3]["costs"][1]["seed"], 2);
  EXPECT_NEAR(json["variants"][3]["costs"][1]["cost"].get<double>(), 0.010, 1e-12);
  const auto lost = comparison_json(answers)["variants"][3];
  EXPECT_NEAR(lost["cost_median"].get<double>(), 0.5, 1e-9);
  EXPECT_TRUE(lost["cost_ci95"].is_null());
  const std::string of_answers = comparison_table(answers);
  for (const char* const cell : {"points lost", "+0.5 (+0.5 to +69.0)"})
    EXPECT_NE(of_answers.find(cell), std::string::npos) << cell << "\n" << of_answers;
  const std::string table = comparison_table(steps);
  for (const char* const cell : {"100 (90 to 120)", "300 (200 to > 400)", "> 400 (300 to > 400)",
                                 "+200 (+82 to more)", "later"})
    EXPECT_NE(table.find(cell), std::string::npos) << cell << "\n" << table;
  EXPECT_NE(comparison_csv(steps).find(",later,"), std::string::npos) << comparison_csv(steps);
  losses.question.tolerance = 0.001;
  summarize(losses);
  EXPECT_TRUE(comparison_json(losses)["verdict"]["enough"].is_null());
}

TEST(NumberText, HasNoSignWhereRoundingLeavesZero) {
  EXPECT_EQ(number_text(-0.04, 1), "0.0");
  EXPECT_EQ(number_text(-0.06, 1), "-0.1");
  EXPECT_EQ(signed_text(-0.04, 1), "+0.0");
  EXPECT_EQ(signed_text(-0.06, 1), "-0.1");
}

TEST(VerdictNotes, SayWhatIsEnoughAtOtherTolerances) {
  ComparisonResult r = decided_comparison();
  summarize(r);
  EXPECT_EQ(verdict_notes(r).back(),
            "Enough at a tolerance of 0.5 % of the loss: mqa; 1 % of the loss: mqa; 1.5 % of the "
            "loss: mqa; 2 % of the loss: mqa and gqa2.");
  const auto at = comparison_json(r)["verdict"]["sensitivity"][0];
  EXPECT_EQ(nlohmann::json(at["not_enough"]), nlohmann::json({"mla8+4"}));
  EXPECT_NEAR(at["tolerance"].get<double>(), 0.005005, 1e-12);
}

TEST(VerdictNotes, NameDifferencesTooSkewedForANormal) {
  ComparisonResult r = decided_comparison();
  r.question.seeds = {10, 10};
  const std::vector<double> skewed = {6, 8, 10, 11, 12, 13, 15, 18, 40, 40};
  r.variants.resize(3);
  for (VariantResult& v : r.variants) {
    v.runs.clear();
    for (std::size_t i = 0; i < skewed.size(); ++i) {
      const double even = static_cast<double>(i), more = v.spec == "mqa" ? skewed[i] : even;
      v.runs.push_back(made_run(i + 1, v.spec == "mha" ? 1 : 1 + 1e-3 * more));
    }
  }
  summarize(r);
  EXPECT_EQ(verdict_notes(r).back(),
            "Differences of mqa (skewness 1.2) are more skewed than normal ones mostly are: do not "
            "trust their intervals.");
}

TEST(StepsToALoss, LieBetweenEvaluations) {
  RunResult run = made_run(1, 1.0);
  run.evaluations = {{100, 3.0, {}}, {200, 2.0, {}}, {300, 1.0, {}}};
  EXPECT_EQ(steps_to(run, 3.5), 100);
  EXPECT_EQ(steps_to(run, 1.25), 275);
  EXPECT_EQ(steps_to(run, 0.9), std::nullopt);
  ComparisonResult r = decided_comparison();
  for (VariantResult& v : r.variants) {
    const double later = v.spec == "mqa" ? -0.5 : v.spec == "mha" ? 0 : 0.5;
    for (RunResult& each : v.runs)
      each.evaluations = {{100, 3, {}}, {300, each.validation_loss + later, {}}};
  }
  summarize(r);
  const auto variants = comparison_json(r)["variants"];
  EXPECT_EQ(variants[2]["steps_to_reference_loss_median"], 300);
  EXPECT_LT(variants[1]["steps_to_reference_loss_median"], 270);
  EXPECT_TRUE(variants[0]["steps_to_reference_loss_median"].is_null());
}

TEST(VerdictNotes, SayWhatVerdictsSuppose) {
  ComparisonResult losses = decided_comparison(), answers = answered_comparison();
  summarize(losses);
  summarize(answers);
  const auto note = [](const ComparisonResult& r) {
    return comparison_json(r)["verdict"]["notes"][0].get<std::string>();
  };
  EXPECT_EQ(
      note(losses),
      "Verdicts are tests of non-inferiority, one-sided at 2.5 %, and assume that differences "
      "are normally distributed over seeds (95 % confidence intervals, Student t).");
  EXPECT_TRUE(note(answers).starts_with("Verdicts count seeds (sign test): ")) << note(answers);
  EXPECT_NE(comparison_table(answers).find(note(answers)), std::string::npos);
  losses.question.seeds = {3, 9};
  EXPECT_NE(note(losses).find("repeated confidence intervals"), std::string::npos);
}

TEST(UsualQuestion, IsAboutAnswersWhereTheLossCountsNothingElse) {
  Corpus corpus;
  Question question;
  EXPECT_EQ(usual_metric(corpus, false), Metric::loss);
  EXPECT_EQ(usual_metric(corpus, true), Metric::steps);
  EXPECT_EQ(usual_seeds(question).text(), "3");
  corpus.only_answers = true;
  EXPECT_EQ(usual_metric(corpus, false), Metric::answers);
  question.metric = Metric::answers;
  EXPECT_EQ(usual_seeds(question).text(), "5..10") << "fewer decide nothing";
  question.intervals = false;
  EXPECT_EQ(usual_seeds(question).text(), "5");
}

TEST(Tolerance, IsAHundredthOfTheLossOfTheFirstSeedsOfTheReference) {
  ComparisonResult r;
  Question& question = r.question;
  question.seeds = {2, 9};
  question.reference = "mha";
  r.variants.resize(3);
  for (std::size_t i = 0; i < 3; ++i) r.variants[i].spec = std::vector{"mha", "mqa@4", "mhax2"}[i];
  EXPECT_EQ(tolerance(r), std::nullopt);
  r.variants[0].runs = {made_run(1, 2), made_run(2, 4), made_run(3, 100)};
  r.variants[1].runs = {made_run(1, 3), made_run(2, 5)};
  r.variants[2].runs = {made_run(1, 2.04), made_run(2, 4.04), made_run(3, 900)};
  EXPECT_DOUBLE_EQ(*tolerance(r), 0.03);
  question.controls = {"mqa@4", "mhax2"};
  EXPECT_NEAR(*tolerance(r), 0.01, 1e-12) << "of the cheapest control";
  question.controls.clear();
  r.variants[0].runs = {made_run(1, 0.0014)};
  EXPECT_DOUBLE_EQ(*tolerance(r), 0.001) << "a hundredth of next to nothing is nothing";
  question.metric = Metric::answers;
  EXPECT_EQ(tolerance(r), 5);
  question.tolerance = 0.5;
  EXPECT_EQ(tolerance(r), 0.5);
}

}  // namespace
}  // namespace headcount
