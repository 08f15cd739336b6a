// Runs that a comparison needs, with made-up results in place of training.
#include "train/compare/needed_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "train/compare/made_results.h"

namespace headcount {
namespace {

using Names = std::vector<std::string>;
// By name, then by seed.
using Losses = std::map<std::string, std::vector<double>>;

Question question(Index first, Index last) {
  Question q;
  q.seeds = {first, last};
  q.tolerance = 0.1;
  return q;
}

ComparisonResult facts(Question q, const std::string& reference, Index too_long_warmup) {
  ComparisonResult r;
  r.question = std::move(q);
  r.question.reference = reference;
  r.too_long_warmup = too_long_warmup;
  return r;
}

// Attentions by their names; those with a * have two learning rates.
std::vector<PlannedVariant> planned(const Names& names) {
  static const TrainOptions options = resolve_training(Given(training_settings()));
  std::vector<PlannedVariant> all;
  for (const std::string& name : names) {
    PlannedVariant& variant = all.emplace_back();
    variant.spec = name.substr(0, name.find('*'));
    const bool swept = variant.spec != name;
    for (const std::string& candidate : swept ? Names{"/lr=1", "/lr=2"} : Names{""})
      variant.candidates.push_back({variant.spec + candidate, variant.spec, "", options});
  }
  return all;
}

struct Plan {
  std::vector<PlannedVariant> variants;
  NeededRuns runs;

  Plan(const Names& names, const Question& q, std::size_t reference = 0, Index too_long_warmup = 0)
      : variants(planned(names)),
        runs(variants, facts(q, variants[reference].spec, too_long_warmup), "c", "") {}
};

// A run takes the fewer steps the more it loses, and answers what it does not lose.
RunStatus outcome(const RunPlan& run, const Losses& losses) {
  const std::string name = run.name.substr(0, run.name.find(','));
  const double loss = losses.at(name)[run.options.seed - 1];
  if (!std::isfinite(loss)) return {true, std::nullopt, "failed", loss == kDivergedRun};
  RunResult result;
  result.seed = run.options.seed;
  result.validation_loss = loss;
  result.tuning_loss = loss;
  result.answer_accuracy = 1 - loss;
  result.evaluations = {{static_cast<Index>(400 / loss), loss, {}}};
  return {true, result, "", false};
}

// Trains what is needed until nothing is; names of the needed runs. Of those that wait, the first
// or the last ends, or any in orders from 4 on. In orders from 2 on, idle jobs train what may be
// needed, too, and drop what turns out not to be: nobody would train a dropped run if it were
// needed again.
Names taken(const NeededRuns& plan, const Losses& losses, unsigned order) {
  std::mt19937 random(order);
  std::vector<RunStatus> outcomes(plan.runs().size());
  std::vector<Need> needs(outcomes.size(), Need::no);
  std::vector<bool> dropped(outcomes.size());
  for (;;) {
    const std::vector<Need> before = std::exchange(needs, plan.needs(outcomes));
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < needs.size(); ++i) {
      dropped[i] = dropped[i] || (before[i] != Need::no && needs[i] == Need::no);
      EXPECT_FALSE(dropped[i] && needs[i] != Need::no) << plan.runs()[i].name;
      if (!outcomes[i].ended && (needs[i] == Need::now || (order >= 2 && needs[i] == Need::maybe)))
        waiting.push_back(i);
    }
    if (std::ranges::none_of(waiting, [&](std::size_t i) { return needs[i] == Need::now; })) break;
    const std::size_t next = order >= 4       ? waiting[random() % waiting.size()]
                             : order % 2 == 0 ? waiting.front()
                                              : waiting.back();
    outcomes[next] = outcome(plan.runs()[next], losses);
  }
  Names names;
  for (std::size_t i = 0; i < needs.size(); ++i)
    if (needs[i] == Need::now) names.push_back(plan.runs()[i].name);
  return names;
}

// Names of the needed runs, which are the same in every order.
Names taken(const Plan& plan, const Losses& losses) {
  const Names first = taken(plan.runs, losses, 0);
  for (unsigned order = 1; order < 20; ++order)
    EXPECT_EQ(taken(plan.runs, losses, order), first) << order;
  return first;
}

std::ptrdiff_t of(const Names& runs, const std::string& name) {
  return std::ranges::count_if(runs,
                               [&](const std::string& run) { return run.starts_with(name + ","); });
}

// mqa is clear at once, gqa after some seeds, mla never.
const Losses kLosses = {{"mha", {1, 1, 1, 1, 1, 1, 1, 1}},
                        {"mqa", {2, 2.01, 2, 9, 9, 9, 9, 9}},
                        {"gqa", {1.0, 1.04, 0.96, 1.0, 1.0, 1.0, 9, 9}},
                        {"mla", {1.0, 1.2, 1.0, 1.2, 1.0, 1.2, 1.0, 1.2}}};

TEST(NeededRuns, AddsSeedsToWhatIsOpenAndToTheReference) {
  const Names runs = taken(Plan({"mha", "mqa", "gqa"}, question(3, 8)), kLosses);
  EXPECT_EQ(of(runs, "mqa"), 3);
  EXPECT_GT(of(runs, "gqa"), 3);
  EXPECT_LT(of(runs, "gqa"), 8);
  EXPECT_EQ(of(runs, "mha"), of(runs, "gqa"));
}

// Answers of three seeds decide nothing, whatever they are; five that agree do.
TEST(NeededRuns, AddsSeedsUntilEnoughOfThemAgreeAboutAnswers) {
  Question q = question(3, 10);
  q.metric = Metric::answers;
  q.tolerance = 1;
  Losses losses = {{"mha", std::vector<double>(10, 0.001)}, {"mqa", std::vector<double>(10, 0.07)}};
  EXPECT_EQ(of(taken(Plan({"mha", "mqa"}, q), losses), "mqa"), 5);
  losses["mqa"][2] = 0.005;
  EXPECT_EQ(of(taken(Plan({"mha", "mqa"}, q), losses), "mqa"), 9) << "with one exception";
}

TEST(NeededRuns, ChoosesByTheTuningLossOrByStepsWhereTheyAreCompared) {
  using Figures = std::vector<std::optional<double>>;
  const auto expect_choice = [](const Losses& losses, Metric metric, const Figures& figures,
                                const std::string& chosen) {
    Question q = question(2, 2);
    q.metric = metric;
    const Plan plan({"mha", "mla*"}, q);
    std::vector<RunStatus> outcomes;
    for (const RunPlan& run : plan.runs.runs()) outcomes.push_back(outcome(run, losses));
    EXPECT_EQ(plan.runs.tuning_figures(1, outcomes), figures);
    EXPECT_EQ(plan.runs.chosen(1, outcomes).candidate->name, chosen);
  };
  expect_choice({{"mha", {1, 1}}, {"mla/lr=1", {2, 3}}, {"mla/lr=2", {1, kFailedRun}}},
                Metric::loss, {2.5, std::nullopt}, "mla/lr=1");
  expect_choice({{"mha", {1, 1}}, {"mla/lr=1", {1, 1}}, {"mla/lr=2", {2, 2}}}, Metric::steps,
                {400, 200}, "mla/lr=2");
}

TEST(NeededRuns, TakesTheToleranceFromTheControl) {
  Question q = question(3, 8);
  q.tolerance.reset();
  q.controls = {"mqa@4"};
  const Plan plan({"mha", "mqa@4", "gqa"}, q);
  const auto seeds = [&](double control) {
    const Losses losses = {{"mha", std::vector<double>(8, 100)},
                           {"mqa@4", std::vector<double>(8, control)},
                           {"gqa", std::vector<double>(8, 100.5)}};
    return of(taken(plan, losses), "gqa");
  };
  EXPECT_EQ(seeds(110), 3);
  EXPECT_EQ(seeds(102), 8) << "a quarter of 2 is what gqa loses";
}

TEST(NeededRuns, TakesAsManySeedsAsDecideUpToTheLast) {
  Losses losses = kLosses;
  const auto count = [&](const Plan& plan) { return taken(plan, losses).size(); };
  const Names two = {"mha", "mla"}, three = {"mha", "mqa", "gqa"},
              four = {"mha", "mqa", "gqa", "mla"};
  EXPECT_EQ(count({two, question(3, 8)}), 16u) << "never clear";
  EXPECT_EQ(count({three, question(8, 8)}), 24u) << "a fixed number";
  EXPECT_EQ(count({two, question(3, 8), 0, 100}), 6u) << "the warm-up lets nothing be decided";
  EXPECT_EQ(count({four, question(3, 8)}), 24u);
  EXPECT_EQ(count({four, question(3, 8), 3}), 26u);
  for (const double lost : {kFailedRun, kDivergedRun}) {
    losses["mla"].assign(8, lost);  // on every seed; the comparison stops if it is the reference
    for (const std::size_t reference : {0, 1})
      EXPECT_EQ(count({two, question(3, 8), reference}), 6u) << lost;
  }
  losses["mla"] = kLosses.at("mla");
  losses["mla"][1] = kFailedRun;
  EXPECT_EQ(count({two, question(3, 8)}), 16u);
  losses["mla"][1] = kDivergedRun;
  EXPECT_EQ(count({two, question(3, 8)}), 6u) << "losses of which one diverged stay open";
}

TEST(NeededRuns, AddsSeedsToTheBestCandidateOnly) {
  Losses losses = kLosses;
  losses["mla/lr=1"].assign(8, 7);
  losses["mla/lr=2"] = kLosses.at("mla");
  const Names runs = taken(Plan({"mha", "mla*"}, question(3, 8)), losses);
  EXPECT_EQ(of(runs, "mla/lr=1"), 3);
  EXPECT_EQ(of(runs, "mla/lr=2"), 8);
}

TEST(NeededRuns, NeverNeedsAgainWhatItDropped) {
  Losses losses = kLosses;
  for (const std::string name : {"mqa", "gqa", "mla"})
    losses[name + "/lr=1"] = losses[name + "/lr=2"] = kLosses.at(name);
  const Plan plan({"mha", "mqa*", "gqa*", "mla*"}, question(3, 8));
  for (unsigned order = 4; order < 104; ++order) taken(plan.runs, losses, order);
}

}  // namespace
}  // namespace headcount
