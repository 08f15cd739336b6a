#include "train/cli/comparison_progress.h"

#include <algorithm>
#include <map>

#include "train/cli/command_line.h"
#include "train/statistics.h"
#include "train/units.h"

namespace headcount {

namespace {

// Steps that each run may be expected to train. A run that ends when it has learned takes as many
// as the finished runs of its attention or, before there are any, a quarter of all.
std::vector<Index> expected_steps(const std::vector<RunPlan>& runs,
                                  std::span<const RunStatus> outcomes) {
  constexpr Index kShare = 4;
  std::map<std::string, std::vector<double>> taken;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    if (const auto& result = outcomes[run].result)
      taken[runs[run].options.model->attention].push_back(
          static_cast<double>(result->learned_at.value_or(runs[run].options.steps)));
  }
  std::vector<Index> expected;
  for (const RunPlan& run : runs) {
    const TrainOptions& options = run.options;
    const auto finished = taken.find(options.model->attention);
    if (!options.stops_when_learned()) {
      expected.push_back(options.steps);
    } else if (finished == taken.end()) {
      expected.push_back(options.steps / kShare);
    } else {
      expected.push_back(static_cast<Index>(median(finished->second)));
    }
  }
  return expected;
}

}  // namespace

void ComparisonProgress::update(const std::vector<RunPlan>& runs,
                                std::span<const RunStatus> outcomes, std::span<const Need> needs) {
  const std::lock_guard lock(mutex_);
  const bool first = runs_ == nullptr;
  runs_ = &runs;
  needs_.assign(needs.begin(), needs.end());
  finished_ = needed_ = possible_ = 0;
  steps_needed_ = steps_possible_ = 0;
  expected_ = expected_steps(runs, outcomes);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    if (needs[run] == Need::no) under_way_.erase(run);
    const Index steps = outcomes[run].ended ? 0 : expected_[run];
    if (needs[run] == Need::now) {
      ++needed_;
      finished_ += outcomes[run].ended;
      steps_needed_ += steps;
    } else if (needs[run] == Need::maybe) {
      ++possible_;
      steps_possible_ += steps;
    }
  }
  if (!first) return;
  start_ = std::chrono::steady_clock::now();
  if (finished_ == 0) return;
  progress_.tell(std::to_string(finished_) + " of " + std::to_string(needed_) +
                 " runs were finished before");
}

std::string ComparisonProgress::head() const {
  std::string text = std::to_string(finished_) + " of " + std::to_string(needed_) + " runs done";
  Index to_do = steps_needed_;
  for (const auto& [run, step] : under_way_) {
    if (needs_[run] == Need::now) to_do -= std::min(step.step, expected_[run]);
  }
  if (steps_done_ == 0 || to_do <= 0) return text;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  text += ", " + eta_text(seconds, steps_done_, to_do);
  if (possible_ > 0) {
    text += "; up to " + std::to_string(possible_) + " more if verdicts stay open, " +
            eta_text(seconds, steps_done_, to_do + steps_possible_);
  }
  return text;
}

void ComparisonProgress::step(std::size_t run, const StepResult& result) {
  const std::lock_guard lock(mutex_);
  // The first step of a run counts as one: a run that resumes made the earlier ones before.
  const auto before = under_way_.find(run);
  steps_done_ += before == under_way_.end() ? 1 : result.step - before->second.step;
  under_way_[run] = result;
  // Before this, times are those of first steps, which are slower.
  constexpr std::chrono::seconds kMeasured(3);
  if (!estimated_ && std::chrono::steady_clock::now() - start_ > kMeasured) {
    estimated_ = true;
    progress_.tell(head());
  }
  if (!progress_.is_due()) return;
  std::vector<std::string> fields = {head()};
  for (const auto& [index, newest] : under_way_) {
    fields.push_back((*runs_)[index].name + ": step " + std::to_string(newest.step) + ", loss " +
                     loss_text(newest.loss));
  }
  progress_.rewrite(fields, " | ");
}

void ComparisonProgress::finish(std::size_t run, const RunStatus& outcome) {
  const std::lock_guard lock(mutex_);
  under_way_.erase(run);
  const std::string how =
      outcome.result && outcome.result->learned_at
          ? "learned in " + std::to_string(*outcome.result->learned_at) + " steps"
      : outcome.result ? "validation loss " + loss_text(outcome.result->validation_loss)
                       : "failed: " + as_flags(outcome.failure);
  progress_.tell((*runs_)[run].name + ": " + how + " (" + head() + ")");
}

}  // namespace headcount
