// Runs that a comparison needs, with made-up results in place of training.
#include "train/compare/needed_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace headcount {
namespace {

// By name, then by seed; NaN: fails.
using Losses = std::map<std::string, std::vector<double>>;

constexpr double kDiverged = std::numeric_limits<double>::infinity();

const TrainOptions& plain_options() {
  static const TrainOptions options = resolve_training(Given(training_settings()));
  return options;
}

std::vector<PlannedVariant> variants(const std::vector<std::string>& names) {
  std::vector<PlannedVariant> all;
  for (const std::string& name : names) all.push_back({name, {{name, name, "", plain_options()}}});
  return all;
}

// mha, and these with two learning rates each.
std::vector<PlannedVariant> with_two_rates(const std::vector<std::string>& names) {
  std::vector<PlannedVariant> all = variants({"mha"});
  for (const std::string& name : names) {
    PlannedVariant& variant = all.emplace_back(PlannedVariant{name, {}});
    for (const std::string& candidate : {name + "/lr=1", name + "/lr=2"})
      variant.candidates.push_back({candidate, candidate, "", plain_options()});
  }
  return all;
}

Question question(Index first, Index last) {
  Question q;
  q.seeds = {first, last};
  q.tolerance = 0.1;
  return q;
}

NeededRuns needed_runs(const std::vector<PlannedVariant>& all, Question q,
                       std::size_t reference = 0, Index too_long_warmup = 0) {
  ComparisonResult facts;
  q.reference = all[reference].spec;
  facts.question = q;
  facts.too_long_warmup = too_long_warmup;
  return {all, facts, "c", ""};
}

RunStatus outcome(const RunPlan& run, const Losses& losses) {
  RunStatus outcome;
  outcome.ended = true;
  const std::string name = run.name.substr(0, run.name.find(','));
  const double loss = losses.at(name)[run.options.seed - 1];
  if (!std::isfinite(loss)) {
    outcome.failure = "failed";
    outcome.diverged = loss == kDiverged;
  } else {
    outcome.result.emplace();
    outcome.result->seed = run.options.seed;
    outcome.result->validation_loss = loss;
    outcome.result->tuning_loss = loss;
  }
  return outcome;
}

// Trains what is needed until nothing is, with runs ending in an order that `pick` chooses among
// those that wait; `idle` trains those that may be needed too. Names of the needed runs.
std::vector<std::string> taken(const NeededRuns& plan, const Losses& losses, bool last_first,
                               bool idle = false) {
  std::vector<RunStatus> outcomes(plan.runs().size());
  for (;;) {
    const std::vector<Need> needs = plan.needs(outcomes);
    std::vector<std::size_t> waiting;
    bool needed = false;
    for (std::size_t i = 0; i < needs.size(); ++i) {
      if (outcomes[i].ended) continue;
      needed = needed || needs[i] == Need::now;
      if (needs[i] == Need::now || (idle && needs[i] == Need::maybe)) waiting.push_back(i);
    }
    if (!needed) break;
    const std::size_t next = last_first ? waiting.back() : waiting.front();
    outcomes[next] = outcome(plan.runs()[next], losses);
  }
  const std::vector<Need> needs = plan.needs(outcomes);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (needs[i] == Need::now) names.push_back(plan.runs()[i].name);
  }
  return names;
}

std::ptrdiff_t of(const std::vector<std::string>& runs, const std::string& name) {
  return std::ranges::count_if(runs,
                               [&](const std::string& run) { return run.starts_with(name + ","); });
}

const double kFailed = std::nan("");

// mqa is clear at once, gqa after some seeds, mla never.
const Losses kLosses = {{"mha", {1, 1, 1, 1, 1, 1, 1, 1}},
                        {"mqa", {2, 2.01, 2, 9, 9, 9, 9, 9}},
                        {"gqa", {1.0, 1.04, 0.96, 1.0, 1.0, 1.0, 9, 9}},
                        {"mla", {1.0, 1.2, 1.0, 1.2, 1.0, 1.2, 1.0, 1.2}}};

TEST(NeededRuns, AddsSeedsToWhatIsOpenAndToTheReference) {
  const auto all = variants({"mha", "mqa", "gqa"});
  const NeededRuns plan = needed_runs(all, question(3, 8));
  const auto runs = taken(plan, kLosses, false);
  EXPECT_EQ(of(runs, "mqa"), 3);
  EXPECT_GT(of(runs, "gqa"), 3);
  EXPECT_LT(of(runs, "gqa"), 8);
  EXPECT_EQ(of(runs, "mha"), of(runs, "gqa"));
}

// Answers of three seeds decide nothing, whatever they are; five that agree do.
TEST(NeededRuns, AddsSeedsUntilEnoughOfThemAgreeAboutAnswers) {
  const auto all = variants({"mha", "mqa"});
  Question q = question(3, 10);
  q.metric = Metric::answers;
  q.tolerance = 1;
  const NeededRuns plan = needed_runs(all, q);
  const auto runs_with = [&](double third) {
    std::vector<RunStatus> outcomes(plan.runs().size());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const RunPlan& run = plan.runs()[i];
      const bool mqa = run.name.starts_with("mqa");
      if (run.options.seed > 5) continue;
      outcomes[i].ended = true;
      outcomes[i].result.emplace();
      outcomes[i].result->seed = run.options.seed;
      outcomes[i].result->answer_accuracy = !mqa ? 1.0 : run.options.seed == 3 ? third : 0.93;
    }
    return std::ranges::count(plan.needs(outcomes), Need::now);
  };
  EXPECT_EQ(runs_with(0.931), 10) << "not enough, after five seeds";
  EXPECT_EQ(runs_with(0.995), 12) << "one more seed of both";
}

TEST(NeededRuns, TellsWhatEachCandidateIsChosenBy) {
  const auto all = with_two_rates({"mla"});
  const NeededRuns plan = needed_runs(all, question(2, 2));
  const Losses losses = {{"mha", {1, 1}}, {"mla/lr=1", {2, 3}}, {"mla/lr=2", {1, kFailed}}};
  std::vector<RunStatus> outcomes;
  for (const RunPlan& run : plan.runs()) outcomes.push_back(outcome(run, losses));
  EXPECT_EQ(plan.tuning_figures(1, outcomes),
            (std::vector<std::optional<double>>{2.5, std::nullopt}));
  EXPECT_EQ(plan.chosen(1, outcomes).candidate->name, "mla/lr=1");
}

TEST(NeededRuns, ChoosesByStepsWhereStepsAreCompared) {
  const auto all = with_two_rates({"mla"});
  Question q = question(2, 2);
  q.metric = Metric::steps;
  const NeededRuns plan = needed_runs(all, q);
  std::vector<RunStatus> outcomes(plan.runs().size());
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const bool late = plan.runs()[i].name.starts_with("mla/lr=1");
    RunResult result;
    result.seed = plan.runs()[i].options.seed;
    result.tuning_loss = late ? 0.1 : 0.2;
    result.evaluations = {{400, 1, 0.5}};
    outcomes[i] = {true, result, "", false};
    if (!late) outcomes[i].result->learned_at = 300;
  }
  EXPECT_EQ(plan.chosen(1, outcomes).candidate->name, "mla/lr=2");
  EXPECT_EQ(plan.tuning_figures(1, outcomes), (std::vector<std::optional<double>>{400, 300}));
}

TEST(NeededRuns, TakesTheToleranceFromTheControl) {
  const auto all = variants({"mha", "mqa@4", "gqa"});
  Question q = question(3, 8);
  q.tolerance.reset();
  q.controls = {"mqa@4"};
  Losses losses = {{"mha", {100, 100, 100, 100, 100, 100, 100, 100}},
                   {"gqa", {100.5, 100.5, 100.5, 100.5, 100.5, 100.5, 100.5, 100.5}}};
  const auto seeds = [&](double control) {
    losses["mqa@4"].assign(8, control);
    const auto runs = taken(needed_runs(all, q), losses, false);
    EXPECT_EQ(taken(needed_runs(all, q), losses, true, true), runs);
    return of(runs, "gqa");
  };
  EXPECT_EQ(seeds(110), 3);
  EXPECT_EQ(seeds(102), 8) << "a quarter of 2 is what gqa loses";
}

// Each of these is the same whatever run ends first, and with runs that idle jobs begin.
TEST(NeededRuns, TakesAsManySeedsAsDecideUpToTheLast) {
  Losses losses = kLosses;
  const auto expect_runs = [&](const std::vector<std::string>& names, const Question& question,
                               std::size_t runs, std::size_t reference = 0, Index warmup = 0) {
    const auto all = variants(names);
    const NeededRuns plan = needed_runs(all, question, reference, warmup);
    const auto first = taken(plan, losses, false);
    EXPECT_EQ(first.size(), runs) << names.back();
    EXPECT_EQ(taken(plan, losses, true), first);
    EXPECT_EQ(taken(plan, losses, false, true), first);
    EXPECT_EQ(taken(plan, losses, true, true), first);
  };
  expect_runs({"mha", "mla"}, question(3, 8), 16);         // never clear
  expect_runs({"mha", "mqa", "gqa"}, question(8, 8), 24);  // a fixed number
  expect_runs({"mha", "mla"}, question(3, 8), 6, 0, 100);  // the warm-up lets nothing be decided
  expect_runs({"mha", "mqa", "gqa", "mla"}, question(3, 8), 24);
  expect_runs({"mha", "mqa", "gqa", "mla"}, question(3, 8), 26, 3);
  for (const double lost : {kFailed, kDiverged}) {
    losses["mla"].assign(8, lost);  // on every seed; the comparison stops if it is the reference
    for (const std::size_t reference : {0, 1})
      expect_runs({"mha", "mla"}, question(3, 8), 6, reference);
  }
  losses["mla"] = kLosses.at("mla");
  losses["mla"][1] = kFailed;
  expect_runs({"mha", "mla"}, question(3, 8), 16);
  losses["mla"][1] = kDiverged;  // losses of which one diverged stay open
  expect_runs({"mha", "mla"}, question(3, 8), 6);
}

TEST(NeededRuns, AddsSeedsToTheBestCandidateOnly) {
  const auto all = with_two_rates({"mla"});
  Losses losses = kLosses;
  losses["mla/lr=1"].assign(8, 7);
  losses["mla/lr=2"] = kLosses.at("mla");
  const NeededRuns plan = needed_runs(all, question(3, 8));
  const auto runs = taken(plan, losses, false);
  EXPECT_EQ(of(runs, "mla/lr=1"), 3);
  EXPECT_EQ(of(runs, "mla/lr=2"), 8);
}

// Jobs that would be idle begin runs that may be needed and drop what turns out not to be. Nobody
// would train a dropped run if it were needed again.
TEST(NeededRuns, NeverNeedsAgainWhatItDropped) {
  const std::vector<std::string> names = {"mqa", "gqa", "mla"};
  const auto all = with_two_rates(names);
  Losses losses = {{"mha", kLosses.at("mha")}};
  for (const std::string& name : names) {
    for (const char* value : {"/lr=1", "/lr=2"}) losses[name + value] = kLosses.at(name);
  }
  const NeededRuns plan = needed_runs(all, question(3, 8));
  for (unsigned order = 0; order < 100; ++order) {
    std::mt19937 random(order);
    std::vector<RunStatus> outcomes(plan.runs().size());
    std::vector<Need> before(outcomes.size(), Need::no);
    std::vector<bool> dropped(outcomes.size());
    for (;;) {
      const std::vector<Need> needs = plan.needs(outcomes);
      std::vector<std::size_t> waiting;
      bool needed = false;
      for (std::size_t i = 0; i < needs.size(); ++i) {
        dropped[i] = dropped[i] || (before[i] != Need::no && needs[i] == Need::no);
        EXPECT_FALSE(dropped[i] && needs[i] != Need::no) << plan.runs()[i].name;
        if (outcomes[i].ended) continue;
        needed = needed || needs[i] == Need::now;
        if (needs[i] != Need::no) waiting.push_back(i);
      }
      if (!needed) break;
      const std::size_t next = waiting[random() % waiting.size()];
      outcomes[next] = outcome(plan.runs()[next], losses);
      before = needs;
    }
  }
}

}  // namespace
}  // namespace headcount
