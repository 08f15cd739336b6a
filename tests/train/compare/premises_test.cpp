// What has to hold before a difference between attentions means anything.
#include "train/compare/premises.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "train/compare/made_results.h"
#include "train/compare/verdict.h"
#include "train/run_program.h"

namespace headcount {
namespace {

// Losses of five seeds from `loss` on and, where the text has answers, as many right with each.
VariantResult trained(const std::string& spec, double loss, std::optional<double> answers = {}) {
  VariantResult v = losing(spec, spec == "mha" ? 1024 : 256, std::vector<double>(5, loss));
  for (RunResult& run : v.runs) {
    run.validation_loss += 1e-4 * static_cast<double>(run.seed);
    run.answer_accuracy = answers;
    run.answers_by_distance = {{1, 100, 0}, {2, 300, 0}};
  }
  return v;
}

ComparisonResult comparison_of(double loss, std::optional<double> answers = {}) {
  ComparisonResult r =
      made_comparison({trained("mha", loss, answers), trained("mqa", loss, answers)}, {5, 5},
                      answers ? Metric::answers : Metric::loss);
  r.steps = 1000;
  r.only_answers = answers.has_value();
  if (answers) r.baselines = Baselines{.guesser = 0.25};
  return r;
}

std::string why(ComparisonResult r) {
  summarize(r);
  EXPECT_EQ(r.variants[1].verdict, r.undecided.empty() ? Verdict::enough : Verdict::open);
  return r.undecided;
}

TEST(BaselineLoss, IsOfCharacterPairsOrOfAGuesser) {
  const Corpus tales = load_corpus("tales", {.characters = 20'000}),
               lookups = load_corpus("lookup", {.characters = 20'000});
  EXPECT_NEAR(baseline_loss(lookups), std::log(4), 0.01);
  EXPECT_GT(baseline_loss(tales), 2 * *tales.entropy_per_character);
  EXPECT_LT(baseline_loss(tales), std::log(tales.vocabulary.size()));
}

TEST(Premises, LeaveVerdictsOpenBesideALossNoBetterThanCharacterPairs) {
  ComparisonResult r = comparison_of(2.4);
  r.baseline_loss = 2.5;
  EXPECT_EQ(why(r), "");
  r.baseline_loss = 2.42;  // with the tolerance of 0.024 what has learned nothing would be enough
  EXPECT_EQ(why(r),
            "mha, the reference, has a loss of 2.4003, a bigram model has 2.4200, and the "
            "tolerance is 0.0240; train longer");
  r.baseline_loss = 2.3;
  for (RunResult& run : r.variants[0].runs) {
    run.curve_losses = std::vector<double>(100, 2.0);  // of training, below the baseline's
    for (Index i = 1; i <= 100; ++i) run.curve_steps.push_back(10 * i);
    std::fill(run.curve_losses.end() - 10, run.curve_losses.end(), 1.9);
  }
  expect_parts(why(r),
               {"; its training loss is far lower, so it may overfit: evaluate on the way"});
  EXPECT_FALSE(overfits(r.variants[0]));
  EXPECT_TRUE(fall_at_end(r.variants[0], r) && may_overfit(r.variants[0], r));
  for (const std::string& note : verdict_notes(summarized(r)))
    expect_no_parts(note, {"longer training"});
  r.baseline_loss = 2.42;  // within the tolerance above the loss
  expect_parts(why(r), {"so it may overfit"});
  r.question.tolerance = 0.01;
  EXPECT_EQ(why(r), "");
}

// Evaluations of all runs of an attention at steps 100, 200, ...: {loss, share of right answers}.
void evaluate(VariantResult& variant, const std::vector<std::pair<double, double>>& at) {
  for (RunResult& run : variant.runs) {
    run.evaluations.clear();
    for (const auto& [loss, answers] : at)
      run.evaluations.push_back({100 * (std::ssize(run.evaluations) + 1), loss, answers});
  }
}

// A smaller cache, which learns more slowly, would win.
TEST(Premises, LeaveVerdictsOpenBesideAReferenceThatOverfits) {
  ComparisonResult r = comparison_of(2.4);
  evaluate(r.variants[0], {{2.5, 0}, {2.39, 0}, {2.4, 0}});
  EXPECT_EQ(why(r), "") << "a rise within 1 %";
  evaluate(r.variants[0], {{2.5, 0}, {2.25, 0}, {2.4, 0}});
  r.baseline_loss = 2.3;
  EXPECT_EQ(why(r),
            "mha, the reference, overfits: its validation loss was 2.2500 at step 200 and is "
            "2.4000 at the end; take a longer text, or fewer steps");
  r.baseline_loss.reset();
  r.question.tolerance = 0.2;
  EXPECT_EQ(why(r), "") << "a rise within the tolerance";
  r.question.tolerance.reset();
  const auto runs = r.variants[0].runs;
  r.variants[0].runs[4].evaluations[2].loss = 2.2;
  EXPECT_EQ(why(r), "") << "the loss of one run did not rise";
  r.variants[0].runs = runs;
  std::swap(r.variants[0].runs, r.variants[1].runs);
  EXPECT_EQ(why(r), "") << "the reference does not overfit";
  EXPECT_EQ(verdict_notes(summarized(r))[1],
            "The validation loss of mqa rose by more than 1 % from its lowest: longer training "
            "makes it worse.");
  r = comparison_of(0.1, 0.8);
  evaluate(r.variants[0], {{0.1, 0.8}, {0.1, 0.84}, {0.5, 0.8}});
  EXPECT_EQ(why(r), "") << "answers decide, and they are as right as before";
  evaluate(r.variants[0], {{0.1, 0.8}, {0.1, 0.86}, {0.5, 0.8}});
  expect_parts(why(r), {"86.0 % of its answers were right at step 200 and 80.0 % are at the end"});
}

TEST(Premises, AdviseNoLongerTrainingWhereTheLossRises) {
  const std::string rises = "; its validation loss rises from step 100 on: take a longer text";
  ComparisonResult r = comparison_of(1.5, 0.5);
  r.baseline_loss = 1.3863;
  evaluate(r.variants[0], {{1.2, 0.5}, {1.5, 0.5}});
  EXPECT_TRUE(why(r).ends_with(rises)) << why(r);
  r = comparison_of(0.1, 0.24);
  evaluate(r.variants[0], {{0.1, 0.24}, {0.2, 0.24}});
  EXPECT_TRUE(why(r).ends_with(rises)) << why(r);
  r.question.metric = Metric::steps;
  EXPECT_EQ(why(r), "mha, the reference, does not learn in 1000 steps on 5 of 5 seeds" + rises);
}

TEST(Premises, LeaveVerdictsOpenBesideAnswersNoBetterThanGuessed) {
  const auto why_of = [](double right, std::optional<double> tolerance = {}) {
    ComparisonResult r = comparison_of(0.1, right);
    r.question.tolerance = tolerance;
    return why(r);
  };
  EXPECT_EQ(why_of(0.9), "");
  EXPECT_EQ(why_of(0.24),
            "mha, the reference, has 24.0 % of the answers right, 25.0 % are right without a "
            "lookup, and the tolerance is 5.0 points; train longer");
  // Two standard errors of 400 guesses are 4.3 points.
  expect_parts(why_of(0.29, 1), {"a share of 400 answers tells no difference below 4.3 points;"});
  EXPECT_EQ(why_of(0.30, 1), "");
  expect_parts(why_of(0.9, 75), {"no share is so much higher: lower the tolerance"});
  ComparisonResult sure = comparison_of(1.5, 0.5);
  sure.baseline_loss = 1.3863;
  expect_parts(why(sure), {"has a loss of 1.5003, guessing has 1.3863; train longer"});
}

TEST(Premises, LeaveVerdictsOpenWhereASmallerCacheIsAheadByMoreThanTheTolerance) {
  ComparisonResult r = comparison_of(2.4);
  r.variants.push_back(trained("mqa@2", 2.3));
  EXPECT_EQ(why(r),
            "mha, the reference, has a loss 0.1000 above that of mqa@2, whose cache is smaller, "
            "and the tolerance is 0.0240; train longer or, if that changes nothing, let mqa@2 be "
            "the reference");
  r.question.reference = "mqa@2";
  r.variants[1] = trained("mqa", 2.3);
  EXPECT_EQ(why(r), "") << "mha, which loses to the smaller cache, is not the reference";
  r.question.reference = "mha";
  r.variants.resize(2);
  for (const double bytes : {1024, 4096}) {
    r.variants[1].cache_bytes_per_token = bytes;
    EXPECT_EQ(why(r), "") << "the cache ahead is not smaller";
  }
  r.variants[1].cache_bytes_per_token = 256;
  EXPECT_NE(why(r), "");
  r.variants[1].runs[0].validation_loss = 2.42;
  EXPECT_EQ(why(r), "") << "the interval reaches above -0.024";
  // More answers are right.
  r = comparison_of(0.1, 0.5);
  for (RunResult& run : r.variants[1].runs) run.answer_accuracy = 0.62;
  expect_parts(why(r), {"has 12.0 points fewer of the answers right than mqa, whose cache"});
  r.variants[1].runs[0].answer_accuracy = 0.5;
  EXPECT_EQ(why(r), "") << "four of five seeds prove nothing";
}

TEST(Premises, LeaveVerdictsOpenUnlessEachControlCostsMoreThanTheTolerance) {
  ComparisonResult r = comparison_of(2.4);
  r.question.controls = {"mha@4"};
  r.variants.push_back(trained("mha@4", 2.44));
  EXPECT_EQ(why(r), "");
  EXPECT_NEAR(*tolerance(r), 0.01, 1e-12) << "a quarter of what the control loses";
  r.baseline_loss = 2.412;  // 0.0117 above the reference: less than a hundredth of its loss
  EXPECT_EQ(why(r), "") << "the tolerance is the control's";
  r.baseline_loss.reset();
  r.variants.back() = trained("mha@4", 2.3999);
  const std::string rest =
      ", so that nothing is at stake here: train longer, take more seeds, or a text that asks "
      "more, "
      "such as recall";
  EXPECT_EQ(why(r), "mha@4, a control, is enough" + rest);
  r.variants.back().runs[0].validation_loss = 2.5;
  EXPECT_EQ(why(r), "mha@4, a control, is not shown to cost more than the tolerance" + rest);
}

TEST(Premises, TakeFiveSeedsOfAnswers) {
  ComparisonResult r = comparison_of(0.1, 0.9);
  r.question.seeds = {3, 4};
  for (VariantResult& v : r.variants) v.runs.resize(4);
  EXPECT_EQ(why(r), "verdicts about answers count seeds and need 5 or more");
}

// Without a run.
TEST(Premises, AreKnownBeforeAnyRunWhereSeedsStepsOrTheToleranceLetNothingBeDecided) {
  ComparisonResult facts = comparison_of(2.4);
  facts.variants.clear();
  facts.baseline_loss = 2.5;
  EXPECT_EQ(why_in_vain(facts), "");
  facts.question.tolerance = 2.5;
  EXPECT_EQ(why_in_vain(facts),
            "a bigram model has a loss of 2.5000, and the tolerance is 2.5000; no loss is so much "
            "lower: lower the tolerance");
  facts.question.metric = Metric::steps;
  EXPECT_EQ(why_in_vain(facts), "");
  facts.question.seeds = {3, 4};
  EXPECT_EQ(why_in_vain(facts), "verdicts about steps count seeds and need 5 or more");
  facts.question.seeds = {5, 5};
  facts.question.tolerance.reset();
  facts.config["stop-at-loss"] = 2.5;
  EXPECT_EQ(why_in_vain(facts), "");
  facts.config["stop-at-loss"] = 3.3;
  EXPECT_EQ(
      why_in_vain(facts),
      "a bigram model has a loss of 2.5000, so that a mark of 3.3 asks for no attention; lower "
      "it");
  facts.too_long_warmup = 2000;
  expect_parts(why_in_vain(facts), {"the 1000 steps are fewer than the warm-up of 2000; "});
}

TEST(Premises, NameTheSeedsOnWhichTheReferenceDiverged) {
  ComparisonResult r = comparison_of(2.4);
  r.variants[0].runs.resize(3);
  r.variants[0].diverged = {4, 5};
  summarize(r);
  EXPECT_EQ(r.variants[1].costs.size(), 3u);
  EXPECT_EQ(verdict_notes(r)[1],
            "mha, the reference, diverged on seeds 4 and 5, which no verdict counts.");
}

// A loss of one attention that falls by `per_step` in the last tenth of 1000 steps and is level
// before, with noise of `noise` about it.
ComparisonResult falling(double per_step, double noise, std::size_t variant = 0) {
  ComparisonResult r = comparison_of(2.4);
  r.question.tolerance = 0.02;
  for (RunResult& run : r.variants[variant].runs) {
    for (Index step = 10; step <= 1000; step += 10) {
      run.curve_steps.push_back(step);
      const double fallen = per_step * static_cast<double>(std::max<Index>(0, step - 900));
      run.curve_losses.push_back(3 - fallen + (step % 20 == 0 ? noise : -noise));
    }
  }
  return r;
}

TEST(FallAtEnd, IsHowFastTheLossStillFalls) {
  const auto fall = [](const ComparisonResult& r) { return fall_at_end(r.variants[0], r); };
  // The mean of the last tenth is 55 steps' worth lower than that of the tenth before.
  EXPECT_NEAR(fall(falling(0.001, 0)).value_or(0), 0.055, 1e-9);
  EXPECT_FALSE(fall(falling(0.0003, 0))) << "less than the tolerance";
  EXPECT_FALSE(fall(falling(0.001, 0.2))) << "within its noise";
  EXPECT_FALSE(fall(falling(-0.001, 0)));
  EXPECT_FALSE(fall(comparison_of(2.4))) << "no curve";
}

TEST(FallAtEnd, OfAnyAttentionStandsBesideTheVerdict) {
  const auto expect_note = [](const ComparisonResult& r, const std::string& note) {
    EXPECT_EQ(verdict_notes(summarized(r))[1],
              note + " nats per 100 steps: longer training may change the verdict.");
  };
  for (const std::size_t variant : {0u, 1u}) {
    const ComparisonResult r = falling(0.001, 0, variant);
    expect_note(r, "The training loss of " + r.variants[variant].spec +
                       " is still falling at the end, by 0.055");
  }
  ComparisonResult all = falling(0.001, 0);
  all.variants[1] = falling(0.002, 0, 1).variants[1];
  const std::string up_to = " are still falling at the end, by up to 0.11";
  expect_note(all, "The training losses of mha and mqa" + up_to);
  all.variants.resize(9, all.variants[1]);
  expect_note(all, "The training losses of 9 attentions" + up_to);
}

// mha, gqa2 and mqa, which have the first, the second and the last value of a sweep.
ComparisonResult swept(const std::string& setting, const std::vector<std::string>& values) {
  ComparisonResult r = comparison_of(2.4);
  r.sweep = setting + "=" + values[0] + "," + values[1];
  r.variants.insert(r.variants.begin() + 1, trained("gqa2", 2.4));
  for (std::size_t variant = 0; variant < 3; ++variant) {
    for (std::size_t i = 0; i < values.size(); ++i)
      r.variants[variant].swept.push_back({values[i], 2.0 + 0.25 * static_cast<double>(i),
                                           i == std::min(variant, values.size() - 1)});
  }
  return summarized(r);
}

TEST(Sweep, IsATableWithAWarningAtTheEndsOfTheRange) {
  ComparisonResult r = swept("lr", {"1e-4", "1e-3", "1e-2"});
  r.variants[1].swept[2].loss.reset();
  std::string table = comparison_table(r);
  expect_parts(table,
               {"lr 1e-4   lr 1e-3   lr 1e-2\n", "gqa2       2.0000    2.2500 *    failed",
                "mha has the smallest lr of the sweep, 1e-4: a smaller value may be better.\n",
                "mqa has the largest lr of the sweep, 1e-2: a larger value may be better.\n",
                "on the first tenth of the training text, on which no run was trained.\n"});
  expect_no_parts(table, {"gqa2 has"});
  for (SweptValue& value : r.variants[2].swept) value.loss.reset();
  table = comparison_table(r);
  expect_parts(table, {"No run of mqa finished at any lr.\n"});
  expect_no_parts(table, {"mqa has the"});
  // No end where values are words, and nothing is below zero.
  expect_no_parts(comparison_table(swept("norm", {"rms", "layer"})), {"value may be better"});
  expect_no_parts(comparison_table(swept("dropout", {"0", "0.1"})), {"a smaller value"});
}

}  // namespace
}  // namespace headcount
