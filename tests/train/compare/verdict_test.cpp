#include "train/compare/verdict.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "train/compare/made_results.h"
#include "train/compare/premises.h"
#include "train/run_program.h"
#include "train/show/units.h"

namespace headcount {
namespace {

TEST(SeedRange, IsANumberOrTwo) {
  EXPECT_EQ(SeedRange::parse("5").text(), "5");
  EXPECT_EQ(SeedRange::parse("3..20").last, 20);
  for (const char* text : {"", "0", "20..3", "3..3", "1..5", "3..", "..3", "3...5", "three"})
    EXPECT_THROW(SeedRange::parse(text), SettingError) << text;
}

// Three attentions beside mha by their losses: mqa is enough, mla8+4 is not, gqa2 is undecided.
ComparisonResult decided_comparison() {
  return made_comparison(
      {losing("mla8+4", 96, {1.052, 1.053, 1.054}), losing("mqa", 256, {1.003, 1.004, 1.005}),
       losing("mha", 1024, {1.000, 1.001, 1.002}), losing("gqa2", 512, {1.000, 1.011, 1.006})});
}

ComparisonResult answered_comparison() {
  return made_comparison({answering("mha", 1024, {0.99, 0.98, 0.99, 0.98, 0.99}),
                          answering("mqa", 256, {0.989, 0.979, 0.99, 0.978, 0.991}),
                          answering("mla8+4", 96, {0.39, 0.36, 0.38, 0.35, 0.4}),
                          answering("gqa2", 512, {0.985, 0.975, 0.985, 0.975, 0.3})},
                         {5, 10}, Metric::answers);
}

// Runs of 400 steps by the step at which each learned; 0: it did not.
VariantResult learning(const std::string& spec, double bytes, const std::vector<Index>& steps) {
  VariantResult v = losing(spec, bytes, std::vector<double>(steps.size(), 0.1));
  for (RunResult& run : v.runs) {
    const Index step = steps[run.seed - 1];
    run.answer_accuracy = step > 0 ? 0.96 : 0.4;
    run.evaluations = {{100, 2, 0.1}, {step > 0 ? step : 400, 0.1, run.answer_accuracy}};
    if (step > 0) run.learned_at = step;
  }
  return v;
}

ComparisonResult compared_by_steps() {
  ComparisonResult r = made_comparison(
      {learning("mha", 1024, {100, 110, 100, 100, 100}),
       learning("mqa", 256, {100, 120, 100, 90, 110}),
       learning("mhax4", 256, {300, 200, 320, 0, 250}), learning("delta", 16, {0, 0, 300, 0, 0}),
       learning("gqa2", 512, {100, 200, 100, 100, 100})},
      {5, 10}, Metric::steps);
  r.steps = 400;
  return r;
}

using Change = std::function<void(ComparisonResult&)>;

// The verdicts in one line.
std::string text_of(const ComparisonResult& r) {
  std::string text;
  for (const std::string& clause : verdict_clauses(r)) text += (text.empty() ? "" : "; ") + clause;
  return text;
}

std::string text_after(ComparisonResult r, const Change& change) {
  change(r);
  return text_of(summarized(r));
}

TEST(VerdictText, OfLossesNamesAttentionsInTheOrderOfTheTable) {
  const std::string others = "mla8+4 is not enough: +0.052 +- 0.000; mqa is ";
  const std::pair<Change, std::string> cases[] = {
      {[](ComparisonResult&) {},
       "mla8+4 is not enough: +0.052 +- 0.000 (tolerance 0.010 nats); mqa is enough: 25 % of mha's "
       "KV cache, at +0.003 +- 0.000; gqa2 is undecided: +0.005 +- 0.013"},
      {[](ComparisonResult& r) {
         r.question.reference = "mqa";
         r.question.tolerance = 0.1;
       },
       "mla8+4 is enough: 38 % of mqa's KV cache, at +0.049 +- 0.000 (tolerance 0.100 nats); "
       "enough "
       "too: "
       "gqa2 and mha; on this text nothing that was tried costs more than the tolerance; a "
       "control, "
       "such as mha@4, shows whether anything does, and recall and lookup are texts that ask more"},
      {[](ComparisonResult& r) { r.question.tolerance = 0.001; },
       "no attention is shown to be enough (tolerance 0.0010 nats); mla8+4 is not enough: +0.0520 "
       "+- "
       "0.0000; mqa is not enough: +0.0030 +- 0.0000; "},
      {[](ComparisonResult& r) { r.question.intervals = false; },
       "; mqa is undecided: +0.003; gqa2"},
      {[](ComparisonResult& r) { r.variants[2].runs.clear(); },
       "mha, the reference, has no finished run"},
      {[](ComparisonResult& r) {
         r.variants[2].runs.clear();
         r.question.tolerance = 0.01;
       },
       "mha, the reference, has no finished run"},
      {[](ComparisonResult& r) {
         r.variants[1] = losing("mqa", 256, {1.003, 1.004, kDivergedRun});
       },
       others + "undecided: +0.003 +- 0.000, 1 run diverged; "},
      {[](ComparisonResult& r) {
         r.variants[1] = losing("mqa", 256, {kDivergedRun, kDivergedRun, kDivergedRun});
       },
       others + "not enough: 3 runs diverged, none finished; "},
      // No more decimals than a double has.
      {[](ComparisonResult& r) { r.question.tolerance = 1e-300; },
       "(tolerance 0.000000000000000 nats);"},
  };
  for (const auto& [change, text] : cases)
    expect_parts(text_after(decided_comparison(), change), {text});
}

TEST(VerdictText, OfAnswersCountsSeedsBelowTheToleranceAndRunsThatDivergedAsLost) {
  const std::string enough = "+0.1 points lost (5 of 5 seeds below 5.0 points); ";
  const std::pair<Change, std::string> cases[] = {
      {[](ComparisonResult& r) { r.question.seeds.last = 5; },
       "mqa is enough: 25 % of mha's KV cache, at " + enough +
           "mla8+4 is not enough: +61.0 points lost (0 of 5 seeds below 5.0 points); gqa2 is "
           "undecided: "
           "+0.5 "
           "points lost (4 of 5 seeds below 5.0 points)"},
      {[](ComparisonResult& r) {
         r.variants[1].runs.resize(2);
         r.variants[1].diverged = {3, 4, 5};
         r.variants[2].runs.clear();
         r.variants[2].diverged = {1, 2, 3, 4, 5};
       },
       "no attention is shown to be enough (tolerance 5.0 points); mqa is undecided: +0.1 points "
       "lost (2 of 5 seeds below 5.0 points), 3 runs diverged; mla8+4 is not enough: 5 runs "
       "diverged, none finished; "},
      // No seed counts on which the reference diverged, too.
      {[](ComparisonResult& r) {
         r.variants.resize(2);
         for (VariantResult& v : r.variants) {
           v.runs.resize(4);
           v.diverged = {5};
         }
       },
       "; mqa is undecided: +0.1 points lost (4 of 4 seeds below 5.0 points), 1 run diverged"},
      // Only the cheapest of many attentions has its cost.
      {[](ComparisonResult& r) {
         r.question.seeds.last = 5;
         for (const char* spec : {"gqa4", "gqa8", "mfa"})
           r.variants.push_back(answering(spec, 768, {0.985, 0.975, 0.985, 0.975, 0.98}));
         r.variants.push_back(answering("tpa", 100, {0.3, 0.3, 0.3, 0.3, 0.3}));
       },
       enough + "enough too: gqa4, gqa8 and mfa; not enough: mla8+4 and tpa; undecided: gqa2"},
  };
  for (const auto& [change, text] : cases)
    expect_parts(text_after(answered_comparison(), change), {text});
}

TEST(VerdictText, OfStepsCountsSeedsAlsoWhereRunsDoNotLearn) {
  EXPECT_EQ(text_after(compared_by_steps(), [](ComparisonResult&) {}),
            "mqa is enough: 25 % of mha's KV cache at +0 % steps (by seed; 5 of 5 below +25 %); "
            "mhax4 learns later, at +200 % steps (by seed; 0 of 5 below +25 %); delta has not "
            "learned in 400 steps (1 of 5 seeds have; 40 % right); gqa2 is undecided: it learns at "
            "+0 % steps (by seed; 4 of 5 below +25 %)");
  expect_parts(text_after(compared_by_steps(),
                          [](ComparisonResult& r) { r.variants[1].cache_bytes_per_token = 1024; }),
               {"mqa is enough: equal KV cache at +0 % steps ("});
  expect_parts(
      text_after(compared_by_steps(), [](ComparisonResult& r) { r.question.reference = "delta"; }),
      {"delta, the reference, does not learn in 400 steps on 4 of 5 seeds; train longer"});
  const auto runs = learning("", 1, {100, 0}).runs;
  EXPECT_EQ(cost_of(runs[1], runs[1], Metric::steps), std::nullopt);
  EXPECT_EQ(cost_of(runs[0], runs[1], Metric::steps), -75);
}

// As a list, those that are enough stand first and the undecided last, each behind its word.
TEST(VerdictItems, BeginWithTheirWords) {
  const std::vector<VerdictItem> steps = verdict_items(summarized(compared_by_steps()));
  std::vector<std::string> words;
  for (const VerdictItem& item : steps) words.push_back(item.word);
  EXPECT_EQ(words, (std::vector<std::string>{"enough", "later", "not learned", "undecided"}));
  EXPECT_EQ(steps[0].text,
            "mqa: 25 % of mha's KV cache at +0 % steps (by seed; 5 of 5 below +25 %)");
  EXPECT_EQ(steps[2].text,
            "delta: 1.6 % of mha's KV cache, not in 400 steps (1 of 5 seeds have; 40 % right)");
  ComparisonResult none = decided_comparison();
  none.question.tolerance = 0.1;
  EXPECT_EQ(verdict_items(summarized(none)).back().word, "");
  none.variants.resize(1);
  EXPECT_TRUE(verdict_items(summarized(none)).empty());
}

// A text of which less cache costs nothing says nothing of the cache, unless a control loses.
TEST(VerdictText, SaysWhereNothingCostsMoreThanTheTolerance) {
  const std::string nothing = "on this text nothing that was tried costs more";
  ComparisonResult r = decided_comparison();
  r.question.tolerance = 0.1;
  expect_parts(text_of(summarized(r)), {nothing});
  const std::pair<Change, std::string> cases[] = {
      {[](ComparisonResult& c) { c.question.tolerance = 0.015; }, "one is not enough"},
      {[](ComparisonResult& c) { c.variants[1] = losing("mqa", 256, {kFailedRun}); }, "one failed"},
      {[](ComparisonResult& c) { c.variants[3].runs[1].validation_loss += 0.5; },
       "one is undecided"},
      {[](ComparisonResult& c) {
         c.question.controls = {"mha@4"};
         c.variants.push_back(losing("mha@4", 8, {2.0, 2.001, 2.002}));
       },
       "a control loses"}};
  for (const auto& [change, why] : cases)
    EXPECT_EQ(text_after(r, change).find(nothing), std::string::npos) << why;
}

TEST(Reference, IsMhaOrTheOneWithTheLargestCache) {
  ComparisonResult r = decided_comparison();
  r.variants.push_back(losing("fox", 1056, {1.0, 1.001, 1.002}));
  EXPECT_EQ(reference(r).spec, "mha");
  r.variants.erase(r.variants.begin() + 2);
  EXPECT_EQ(reference(r).spec, "fox");
}

TEST(VerdictJson, HasWhatTheTextAndTheTableSay) {
  ComparisonResult losses = summarized(decided_comparison());
  const ComparisonResult answers = summarized(answered_comparison()),
                         steps = summarized(compared_by_steps());
  const auto json = comparison_json(losses);
  expect_values(json["verdict"],
                {{"text", verdict_clauses(losses)}, {"enough", "mqa"}, {"reference", "mha"}});
  EXPECT_NEAR(json["verdict"]["tolerance"].get<double>(), 0.01001, 1e-12);
  for (const auto& [variant, word] : {std::pair{0, "not enough"}, {1, "enough"}, {3, "undecided"}})
    EXPECT_EQ(json["variants"][variant]["verdict"], word);
  EXPECT_TRUE(json["variants"][2]["verdict"].is_null());
  EXPECT_EQ(json["variants"][3]["costs"][1]["seed"], 2);
  EXPECT_NEAR(json["variants"][3]["costs"][1]["cost"].get<double>(), 0.010, 1e-12);
  expect_parts(comparison_table(answers), {"points below mha", "+0.5 (+0.5 to +69.0)"});
  expect_parts(comparison_table(steps),
               {"% more than mha\n", "with the same seed", "100 (90 to 120)", "300 (200 to > 400)",
                "> 400 (300 to > 400)", "+200 (+82 to more)", "later", "-  not learned  "});
  losses.question.tolerance = 0.001;
  EXPECT_TRUE(comparison_json(summarized(losses))["verdict"]["enough"].is_null());
}

// Statistics are for those who ask for them with any width.
TEST(ComparisonTable, OfAWidthHasWhatANewcomerReadsInLinesThatFit) {
  ComparisonResult steps = summarized(compared_by_steps());
  steps.variants[1].failures = {"seed 3: " + std::string(30, 'x') + " with a long reason " +
                                std::string(60, 'y')};
  steps.variants[2] = learning("mqax32:qk-norm=on", 256, {0, 0, 0, 0, 0});
  const std::string mixed = comparison_table(summarized(steps), Format::text, 80);
  std::erase_if(steps.variants, [](const VariantResult& v) { return v.spec == "delta"; });
  steps.data = "texts/lookup.txt";
  steps = summarized(steps);
  const std::string table = comparison_table(steps, Format::text, 80);
  EXPECT_TRUE(table.starts_with("lookup.txt  ")) << table;
  for (const std::string& text : {mixed, table})
    for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 80u) << line;
  expect_parts(mixed, {"left out, see --wide: % more than mha with the same seed"});
  expect_parts(
      table,
      {"\nmqax32:qk-norm=on         256        not in 400                   -  not learned\n",
       "with a long reason\n  yyy", "Steps are medians over seeds (least to most)"});
  const char* const wide[] = {"params", "tok/s", "Verdicts count seeds"};
  for (const char* part : wide) {
    expect_no_parts(table, {part});
    for (const Format format : {Format::text, Format::markdown})
      expect_parts(comparison_table(steps, format, format == Format::text ? 0 : 80), {part});
  }
}

TEST(NumberText, HasNoSignWhereRoundingLeavesZero) {
  EXPECT_EQ(number_text(-0.04, 1), "0.0");
  EXPECT_EQ(number_text(-0.06, 1), "-0.1");
  EXPECT_EQ(signed_text(-0.04, 1), "+0.0");
  EXPECT_EQ(signed_text(-0.06, 1), "-0.1");
}

TEST(VerdictNotes, SayWhatIsEnoughAtOtherTolerances) {
  EXPECT_EQ(statistics_notes(summarized(decided_comparison())).back(),
            "Enough at a tolerance of 0.5 % of the loss: mqa; 1 % of the loss: mqa; 1.5 % of the "
            "loss: mqa; 2 % of the loss: mqa and gqa2.");
}

TEST(VerdictNotes, NameDifferencesTooSkewedForANormal) {
  std::vector<double> skewed = {6, 8, 10, 11, 12, 13, 15, 18, 40, 40}, even, same(10, 1.0);
  for (double& more : skewed) {
    even.push_back(1 + 1e-3 * static_cast<double>(even.size()));
    more = 1 + 1e-3 * more;
  }
  EXPECT_EQ(verdict_notes(
                summarized(made_comparison({losing("mla8+4", 96, even), losing("mqa", 256, skewed),
                                            losing("mha", 1024, same)},
                                           {10, 10})))
                .back(),
            "Differences of mqa (skewness 1.2) are more skewed than normal ones mostly are: do not "
            "trust their intervals.");
}

TEST(VerdictNotes, SayWhatVerdictsSuppose) {
  ComparisonResult losses = summarized(decided_comparison());
  EXPECT_EQ(verdict_notes(losses)[0],
            "+- is the half width of a 95 % confidence interval over seeds.");
  expect_parts(statistics_notes(losses)[0], {"one-sided at 2.5 %, and assume that", "Student t"});
  losses.question.seeds = {3, 9};
  expect_parts(statistics_notes(losses)[0], {"repeated confidence intervals"});
  expect_parts(comparison_table(summarized(answered_comparison())),
               {"Points are medians, with the least", "Verdicts count seeds (sign test): "});
}

TEST(StepsToALoss, LieBetweenEvaluations) {
  RunResult run;
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
  const auto variants = comparison_json(summarized(r))["variants"];
  EXPECT_EQ(variants[2]["steps_to_reference_loss_median"], 300);
  EXPECT_LT(variants[1]["steps_to_reference_loss_median"], 270);
  EXPECT_TRUE(variants[0]["steps_to_reference_loss_median"].is_null());
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
  ComparisonResult r = made_comparison(
      {losing("mha", 0, {}), losing("mqa@4", 0, {3, 5}), losing("mhax2", 0, {2.04, 4.04, 900})},
      {2, 9});
  Question& question = r.question;
  question.reference = "mha";
  EXPECT_EQ(tolerance(r), std::nullopt);
  r.variants[0] = losing("mha", 0, {2, 4, 100});
  EXPECT_DOUBLE_EQ(*tolerance(r), 0.03);
  question.controls = {"mqa@4", "mhax2"};
  EXPECT_NEAR(*tolerance(r), 0.01, 1e-12) << "of the cheapest control";
  question.controls.clear();
  r.variants[0] = losing("mha", 0, {0.0014});
  EXPECT_DOUBLE_EQ(*tolerance(r), 0.001) << "a hundredth of next to nothing is nothing";
  question.metric = Metric::answers;
  EXPECT_EQ(tolerance(r), 5);
  question.tolerance = 0.5;
  EXPECT_EQ(tolerance(r), 0.5);
}

}  // namespace
}  // namespace headcount
