#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "train/cli/progress.h"
#include "train/compare/queue.h"
#include "train/trainer.h"

namespace headcount {

/// Progress of a comparison on standard error: on a terminal one rewritten line with the loss of
/// each run under way, otherwise one plain line per finished run. Thread-safe.
class ComparisonProgress : public RunWatcher {
 public:
  explicit ComparisonProgress(ProgressMode mode) : progress_(mode) {}

  void update(const std::vector<RunPlan>& runs, std::span<const RunStatus> outcomes,
              std::span<const Need> needs) override;
  void step(std::size_t run, const StepResult& result) override;
  void finish(std::size_t run, const RunStatus& outcome) override;

 private:
  /// Beginning of the progress line: "3 of 20 runs done, ETA 4m10s".
  std::string head() const;

  const std::vector<RunPlan>* runs_ = nullptr;
  Progress progress_;
  bool estimated_ = false;
  std::size_t finished_ = 0, needed_ = 0, possible_ = 0;
  Index steps_done_ = 0;
  /// Steps of runs that have not ended, including the steps already done: of needed runs, and of
  /// runs that may be needed.
  Index steps_needed_ = 0, steps_possible_ = 0;
  std::vector<Index> expected_;  ///< steps that each run is expected to train
  std::vector<Need> needs_;
  std::map<std::size_t, StepResult> under_way_;
  std::chrono::steady_clock::time_point start_{};
  std::mutex mutex_;
};

}  // namespace headcount
