#include "train/cli/comparison_progress.h"

#include <algorithm>

#include "train/cli/command_line.h"
#include "train/statistics.h"

namespace headcount {

namespace {

using Clock = std::chrono::steady_clock;

// Steps that a run may be expected to train. A run that ends when it has learned takes as many as
// the finished runs of its attention or, before there are any, a quarter of all.
Index expected_steps(const TrainOptions& run, const std::vector<RunPlan>& runs,
                     std::span<const RunStatus> statuses) {
  constexpr Index kShare = 4;
  if (!run.stops_when_learned()) return run.steps;
  std::vector<double> taken;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const TrainOptions& other = runs[i].options;
    if (const auto& result = statuses[i].result;
        result && other.model->attention == run.model->attention)
      taken.push_back(static_cast<double>(result->learned_at.value_or(other.steps)));
  }
  return taken.empty() ? run.steps / kShare : static_cast<Index>(median(taken));
}

}  // namespace

void ComparisonProgress::update(const std::vector<RunPlan>& runs,
                                std::span<const RunStatus> statuses, std::span<const Need> needs) {
  const std::lock_guard lock(mutex_);
  const bool first = runs_.empty();
  runs_.resize(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs_[i] = {runs[i].name, needs[i], statuses[i].ended,
                expected_steps(runs[i].options, runs, statuses), runs_[i].newest};
    if (needs[i] == Need::no) runs_[i].newest.reset();
  }
  if (!first) return;
  start_ = Clock::now();
  if (const std::string text = done(); !text.starts_with("0 "))
    progress_.tell(text + " were finished before");
}

std::string ComparisonProgress::done() const {
  const auto needed = [](const Run& run) { return run.need == Need::now; };
  return std::to_string(std::ranges::count_if(
             runs_, [&](const Run& run) { return needed(run) && run.ended; })) +
         " of " + std::to_string(std::ranges::count_if(runs_, needed)) + " runs";
}

std::string ComparisonProgress::head() const {
  Index steps = 0, more_steps = 0;  // to do
  for (const Run& run : runs_) {
    if (run.ended) continue;
    if (run.need == Need::maybe) more_steps += run.steps;
    if (run.need == Need::now)
      steps += run.newest ? std::max<Index>(0, run.steps - run.newest->step) : run.steps;
  }
  const std::string text = done() + " done";
  if (steps_done_ == 0 || steps == 0) return text;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const auto more = std::ranges::count(runs_, Need::maybe, &Run::need);
  return text + ", " + eta_text(seconds, steps_done_, steps) +
         (more == 0 ? ""
                    : "; up to " + std::to_string(more) + " more if verdicts stay open, " +
                          eta_text(seconds, steps_done_, steps + more_steps));
}

void ComparisonProgress::step(std::size_t run, const StepResult& result) {
  const std::lock_guard lock(mutex_);
  // The first step of a run counts as one: a run that resumes made the earlier ones before.
  auto& newest = runs_[run].newest;
  steps_done_ += newest ? result.step - newest->step : 1;
  newest = result;
  // Before this, times are those of first steps, which are slower.
  constexpr std::chrono::seconds kMeasured(3);
  if (!estimated_ && Clock::now() - start_ > kMeasured) {
    estimated_ = true;
    progress_.tell(head());
  }
  if (!progress_.is_due()) return;
  std::vector<std::string> fields = {head()};
  for (const Run& shown : runs_) {
    if (shown.newest)
      fields.push_back(shown.name + ": step " + std::to_string(shown.newest->step) + ", loss " +
                       loss_text(shown.newest->loss));
  }
  progress_.show(fields, " | ");
}

void ComparisonProgress::finish(std::size_t run, const RunStatus& status) {
  const std::lock_guard lock(mutex_);
  runs_[run].newest.reset();
  const auto& result = status.result;
  const std::string how = !result ? "failed: " + as_flags(status.failure)
                          : result->learned_at
                              ? "learned in " + std::to_string(*result->learned_at) + " steps"
                              : "validation loss " + loss_text(result->validation_loss);
  progress_.tell(runs_[run].name + ": " + how + " (" + head() + ")");
}

}  // namespace headcount
