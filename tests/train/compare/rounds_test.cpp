// Rounds of a comparison, with made-up results in place of training.
#include "train/compare/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
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
  Rounds rounds;

  Plan(const Names& names, const Question& q, std::size_t reference = 0, Index too_long_warmup = 0)
      : variants(planned(names)),
        rounds(variants, facts(q, variants[reference].spec, too_long_warmup), "c", "") {}
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

// Names of all runs, trained round by round.
Names trained(const Plan& plan, const Losses& losses) {
  Rounds rounds = plan.rounds;
  std::vector<RunStatus> statuses(rounds.runs().size());
  Names names;
  for (auto round = rounds.next(statuses); !round.empty(); round = rounds.next(statuses)) {
    for (const std::size_t run : round) {
      names.push_back(rounds.runs()[run].name);
      statuses[run] = outcome(rounds.runs()[run], losses);
    }
  }
  return names;
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

TEST(Rounds, AddOneSeedOfTheReferenceAndOfWhatIsOpenToTheFirstOnesOfAll) {
  const Plan plan({"mqa", "mha", "gqa"}, question(3, 8), 1);
  EXPECT_EQ(trained(plan, kLosses),
            Names({"mqa, seed 1", "mha, seed 1", "gqa, seed 1", "mqa, seed 2", "mha, seed 2",
                   "gqa, seed 2", "mqa, seed 3", "mha, seed 3", "gqa, seed 3", "mha, seed 4",
                   "gqa, seed 4", "mha, seed 5", "gqa, seed 5"}));
}

// Answers of three seeds decide nothing, whatever they are; five that agree do.
TEST(Rounds, AddSeedsUntilEnoughOfThemAgreeAboutAnswers) {
  Question q = question(3, 10);
  q.metric = Metric::answers;
  q.tolerance = 1;
  Losses losses = {{"mha", std::vector<double>(10, 0.001)}, {"mqa", std::vector<double>(10, 0.07)}};
  EXPECT_EQ(of(trained(Plan({"mha", "mqa"}, q), losses), "mqa"), 5);
  losses["mqa"][2] = 0.005;
  EXPECT_EQ(of(trained(Plan({"mha", "mqa"}, q), losses), "mqa"), 9) << "with one exception";
}

TEST(Rounds, ChooseByTheTuningLossOrByStepsWhereTheyAreCompared) {
  using Figures = std::vector<std::optional<double>>;
  const auto expect_choice = [](const Losses& losses, Metric metric, const Figures& figures,
                                const std::string& chosen) {
    Question q = question(2, 2);
    q.metric = metric;
    Plan plan({"mha", "mla*"}, q);
    std::vector<RunStatus> statuses(6);
    for (const std::size_t run : plan.rounds.next(statuses))
      statuses[run] = outcome(plan.rounds.runs()[run], losses);
    EXPECT_EQ(plan.rounds.tuning_figures(1, statuses), figures);
    EXPECT_EQ(plan.rounds.chosen(1, statuses).candidate->name, chosen);
  };
  expect_choice({{"mha", {1, 1}}, {"mla/lr=1", {2, 3}}, {"mla/lr=2", {1, kFailedRun}}},
                Metric::loss, {2.5, std::nullopt}, "mla/lr=1");
  expect_choice({{"mha", {1, 1}}, {"mla/lr=1", {1, 1}}, {"mla/lr=2", {2, 2}}}, Metric::steps,
                {400, 200}, "mla/lr=2");
}

TEST(Rounds, TakeTheToleranceFromTheControl) {
  Question q = question(3, 8);
  q.tolerance.reset();
  q.controls = {"mqa@4"};
  const Plan plan({"mha", "mqa@4", "gqa"}, q);
  const auto seeds = [&](double control) {
    const Losses losses = {{"mha", std::vector<double>(8, 100)},
                           {"mqa@4", std::vector<double>(8, control)},
                           {"gqa", std::vector<double>(8, 100.5)}};
    return of(trained(plan, losses), "gqa");
  };
  EXPECT_EQ(seeds(110), 3);
  EXPECT_EQ(seeds(102), 8) << "a quarter of 2 is what gqa loses";
}

TEST(Rounds, TakeAsManySeedsAsDecideUpToTheLast) {
  Losses losses = kLosses;
  const auto count = [&](const Plan& plan) { return trained(plan, losses).size(); };
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

TEST(Rounds, AddSeedsToTheBestCandidateOnly) {
  Losses losses = kLosses;
  losses["mla/lr=1"].assign(8, 7);
  losses["mla/lr=2"] = kLosses.at("mla");
  const Names runs = trained(Plan({"mha", "mla*"}, question(3, 8)), losses);
  EXPECT_EQ(of(runs, "mla/lr=1"), 3);
  EXPECT_EQ(of(runs, "mla/lr=2"), 8);
}

}  // namespace
}  // namespace headcount
