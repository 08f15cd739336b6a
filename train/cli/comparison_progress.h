#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/cli/progress.h"
#include "train/compare/queue.h"

namespace headcount {

/// Progress of a comparison on standard error: on a terminal one rewritten line with the loss of
/// each run under way, otherwise one plain line per finished run. Thread-safe.
class ComparisonProgress : public RunWatcher {
 public:
  explicit ComparisonProgress(ProgressMode mode) : progress_(mode) {}

  void update(const std::vector<RunPlan>& runs, std::span<const RunStatus> statuses,
              std::span<const Need> needs) override;
  void step(std::size_t run, const StepResult& result) override;
  void finish(std::size_t run, const RunStatus& status) override;

 private:
  struct Run {
    std::string name;
    Need need = Need::no;
    bool ended = false;
    Index steps = 0;                   // that it is expected to train
    std::optional<StepResult> newest;  // of a run under way
  };
  /// Beginning of the progress line: "3 of 20 runs done, ETA 4m10s".
  std::string head() const;
  std::string done() const;  // "3 of 20 runs"

  Progress progress_;
  std::vector<Run> runs_;
  bool estimated_ = false;
  Index steps_done_ = 0;
  std::chrono::steady_clock::time_point start_{};
  std::mutex mutex_;
};

}  // namespace headcount
