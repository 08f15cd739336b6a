#include "train/compare/verdict.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "train/compare/made_results.h"
#include "train/compare/premises.h"
#include "train/units.h"

namespace headcount {
namespace {

TEST(Verdict, SaysOnWhichSideOfTheToleranceTheWholeIntervalLies) {
  EXPECT_EQ(verdict({0.003, 0.004}, 0.010), Verdict::enough);
  EXPECT_EQ(verdict({0.052, 0.006}, 0.010), Verdict::not_enough);
  EXPECT_EQ(verdict({0.008, 0.004}, 0.010), Verdict::open);
  EXPECT_EQ(verdict({-0.5, 0.1}, 0.010), Verdict::enough);
  EXPECT_EQ(verdict({0.5, std::nullopt}, 0.010), Verdict::open);
  EXPECT_EQ(verdict({0.5, 0.1}, std::nullopt), Verdict::open);
  EXPECT_EQ(verdict({0.25, 0.25}, 0.5), Verdict::open) << "ends at the tolerance";
  EXPECT_EQ(verdict({0.75, 0.25}, 0.5), Verdict::open) << "begins at the tolerance";
}

TEST(Decision, TakesTheFirstLookThatDecidesAndLeavesOutFailedRuns) {
  const Judge judge(Metric::loss, {3, 6});
  const std::vector<std::optional<double>> costs = {0.1, std::nullopt, 0.1001, 0.0999, 5, 5};
  const Decision decision = decide(costs, 1, judge);
  EXPECT_EQ(decision.verdict, Verdict::enough);
  EXPECT_EQ(decision.seeds, 4u);
  EXPECT_EQ(decide(std::span(costs).first(3), 1, judge).verdict, Verdict::open);
}

TEST(Decision, CountsRunsThatDivergedAsLost) {
  const Judge judge(Metric::answers, {5, 10});
  const std::vector<std::optional<double>> costs = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(decide(costs, 5, judge).verdict, Verdict::enough);
  std::vector<std::optional<double>> lost = costs;
  std::fill(lost.begin(), lost.begin() + 5, kDivergedCost);
  EXPECT_EQ(decide(lost, 5, judge).verdict, Verdict::not_enough);
  const Judge of_losses(Metric::loss, {3, 3});
  EXPECT_EQ(
      decide(std::vector<std::optional<double>>{0.1, 0.1, kDivergedCost}, 1, of_losses).verdict,
      Verdict::open);
}

TEST(SeedRange, IsANumberOrTwo) {
  EXPECT_EQ(SeedRange::parse("5").text(), "5");
  EXPECT_EQ(SeedRange::parse("3..20").last, 20);
  for (const char* text : {"", "0", "20..3", "3..3", "1..5", "3..", "..3", "3...5", "three"})
    EXPECT_THROW(SeedRange::parse(text), SettingError) << text;
}

TEST(VerdictText, SaysThatTheReferenceHasNoRunAlsoWithATolerance) {
  ComparisonResult r = decided_comparison();
  r.variants[2].runs.clear();
  for (const std::optional<double> tolerance : {std::optional<double>(), {0.01}}) {
    r.question.tolerance = tolerance;
    summarize(r);
    EXPECT_EQ(verdict_text(r), "mha, the reference, has no finished run");
  }
}

TEST(VerdictText, NamesTheCheapestThatIsEnoughThenTheOthers) {
  ComparisonResult r = decided_comparison();
  summarize(r);
  EXPECT_EQ(verdict_text(r),
            "mqa is enough: 25 % of mha's KV cache, at +0.003 +- 0.000 (tolerance 0.010); mla8+4 "
            "is not: +0.052 +- 0.000; gqa2 is open: +0.005 +- 0.013");
  const auto json = comparison_json(r);
  EXPECT_EQ(json["verdict"]["text"], verdict_text(r));
  EXPECT_EQ(json["verdict"]["enough"], "mqa");
  EXPECT_EQ(json["verdict"]["reference"], "mha");
  EXPECT_NEAR(json["verdict"]["tolerance"].get<double>(), 0.01001, 1e-12);
  EXPECT_EQ(json["variants"][0]["verdict"], "not enough");
  EXPECT_EQ(json["variants"][1]["verdict"], "enough");
  EXPECT_TRUE(json["variants"][2]["verdict"].is_null());
  EXPECT_EQ(json["variants"][3]["verdict"], "open");
  EXPECT_EQ(json["variants"][3]["costs"][1]["seed"], 2);
  EXPECT_NEAR(json["variants"][3]["costs"][1]["cost"].get<double>(), 0.010, 1e-12);
}

TEST(NumberText, HasNoSignWhereRoundingLeavesZero) {
  EXPECT_EQ(number_text(-0.04, 1), "0.0");
  EXPECT_EQ(number_text(-0.06, 1), "-0.1");
  EXPECT_EQ(signed_text(-0.04, 1), "+0.0");
  EXPECT_EQ(signed_text(-0.06, 1), "-0.1");
}

TEST(VerdictText, JudgesByAnotherReferenceAndTolerance) {
  ComparisonResult r = decided_comparison();
  r.question.reference = "mqa";
  r.question.tolerance = 0.1;
  summarize(r);
  EXPECT_TRUE(
      verdict_text(r).starts_with("mla8+4 is enough: 38 % of mqa's KV cache, at "
                                  "+0.049 +- 0.000 (tolerance 0.100); gqa2 "
                                  "is too: +0.002 +- 0.013; mha is too: -0.003 +- 0.000"))
      << verdict_text(r);
}

TEST(VerdictText, SaysWhenNothingIsEnough) {
  ComparisonResult r = decided_comparison();
  r.question.tolerance = 0.001;
  r.variants.pop_back();
  summarize(r);
  EXPECT_EQ(
      verdict_text(r),
      "no attention is shown to be enough (tolerance 0.0010); mla8+4 is not enough: +0.0520 +- "
      "0.0000; mqa is not enough: +0.0030 +- 0.0000");
  EXPECT_TRUE(comparison_json(r)["verdict"]["enough"].is_null());
}

TEST(VerdictText, OfATinyToleranceHasNoMoreDecimalsThanADouble) {
  ComparisonResult r = decided_comparison();
  r.question.tolerance = 1e-300;
  summarize(r);
  EXPECT_NE(verdict_text(r).find("(tolerance 0.000000000000000)"), std::string::npos)
      << verdict_text(r);
}

TEST(VerdictText, WithoutIntervalsDecidesNothing) {
  ComparisonResult r = decided_comparison();
  r.question.intervals = false;
  summarize(r);
  EXPECT_TRUE(verdict_text(r).starts_with("no attention is shown to be enough")) << verdict_text(r);
}

ComparisonResult answered_comparison() {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.question.metric = Metric::answers;
  r.question.seeds = {5, 5};
  r.variants = {answering("mha", 1024, {0.99, 0.98, 0.99, 0.98, 0.99}),
                answering("mqa", 256, {0.989, 0.979, 0.99, 0.978, 0.991}),
                answering("mla8+4", 96, {0.39, 0.36, 0.38, 0.35, 0.4}),
                answering("gqa2", 512, {0.985, 0.975, 0.985, 0.975, 0.3})};
  return r;
}

TEST(VerdictText, CountsSeedsWhoseAnswersLieBelowTheTolerance) {
  ComparisonResult r = answered_comparison();
  summarize(r);
  EXPECT_EQ(verdict_text(r),
            "mqa is enough: 25 % of mha's KV cache, at +0.1 points lost (5 of 5 seeds below 5.0); "
            "mla8+4 is not: +61.0 points lost (0 of 5 seeds below 5.0); "
            "gqa2 is open: +0.5 points lost (4 of 5 seeds below 5.0)");
  const auto json = comparison_json(r);
  EXPECT_NEAR(json["variants"][3]["cost_median"].get<double>(), 0.5, 1e-9);
  EXPECT_TRUE(json["variants"][3]["cost_ci95"].is_null());
  EXPECT_NE(comparison_table(r).find("+0.5 (+0.5 to +69.0)"), std::string::npos)
      << comparison_table(r);
}

TEST(VerdictText, CountsRunsThatDivergedAsLost) {
  ComparisonResult r = answered_comparison();
  r.question.seeds = {5, 10};
  VariantResult& mqa = r.variants[1];
  mqa.runs.resize(2);
  mqa.diverged = {3, 4, 5};
  r.variants[2].runs.clear();
  r.variants[2].diverged = {1, 2, 3, 4, 5};
  summarize(r);
  EXPECT_EQ(mqa.verdict, Verdict::open);
  EXPECT_EQ(r.variants[2].verdict, Verdict::not_enough);
  EXPECT_EQ(verdict_text(r),
            "no attention is shown to be enough (tolerance 5.0); "
            "mla8+4 is not enough: 5 runs diverged, none finished; "
            "mqa is open: +0.1 points lost (2 of 5 seeds below 5.0), 3 runs diverged; "
            "gqa2 is open: +0.5 points lost (4 of 5 seeds below 5.0)");
}

TEST(VerdictText, CountsNoSeedOnWhichTheReferenceDivergedToo) {
  ComparisonResult r = answered_comparison();
  r.question.seeds = {5, 10};
  for (VariantResult& v : r.variants) v.runs.resize(4);
  for (const std::size_t diverged : {0, 1}) r.variants[diverged].diverged = {5};
  summarize(r);
  EXPECT_NE(verdict_text(r).find("mqa is open: +0.1 points lost (4 of 4 seeds below 5.0), 1 run "
                                 "diverged"),
            std::string::npos)
      << verdict_text(r);
}

TEST(VerdictText, OfLossesIsOpenIfARunDiverged) {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.question.seeds = {3, 3};
  r.variants = {made_variant("mha", 1024, {made_run(1, 2), made_run(2, 2), made_run(3, 2.0)}),
                made_variant("mqa", 256, {made_run(1, 2.001), made_run(2, 2.002)})};
  summarize(r);
  EXPECT_EQ(r.variants[1].verdict, Verdict::enough);
  r.variants[1].diverged = {3};
  summarize(r);
  EXPECT_EQ(r.variants[1].verdict, Verdict::open);
  EXPECT_NE(verdict_text(r).find("mqa is open: "), std::string::npos) << verdict_text(r);
  EXPECT_NE(verdict_text(r).find("1 run diverged"), std::string::npos) << verdict_text(r);
}

TEST(Verdict, OfLossesIsNotEnoughIfEverySeedDiverged) {
  ComparisonResult r = decided_comparison();
  r.variants[1].runs.clear();
  r.variants[1].diverged = {1, 2, 3};
  summarize(r);
  EXPECT_EQ(r.variants[1].verdict, Verdict::not_enough);
  EXPECT_NE(verdict_text(r).find("mqa is not enough: 3 runs diverged, none finished"),
            std::string::npos)
      << verdict_text(r);
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

TEST(VerdictText, OfManyAttentionsGivesOnlyTheCostOfTheCheapest) {
  ComparisonResult r = answered_comparison();
  for (const char* spec : {"gqa4", "gqa8", "mfa"})
    r.variants.push_back(answering(spec, 768, {0.985, 0.975, 0.985, 0.975, 0.98}));
  r.variants.push_back(answering("tpa", 100, {0.3, 0.3, 0.3, 0.3, 0.3}));
  summarize(r);
  EXPECT_EQ(verdict_text(r),
            "mqa is enough: 25 % of mha's KV cache, at +0.1 points lost (5 of 5 seeds below 5.0); "
            "enough too: gqa4, gqa8 and mfa; not enough: mla8+4 and tpa; open: "
            "gqa2");
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
