#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "train/cli/progress.h"
#include "train/compare/runner.h"
#include "train/trainer.h"

namespace headcount {

/// Progress of a whole comparison on standard error: on a terminal one line that is rewritten, with
/// the loss of each run under way; otherwise one plain line per finished run. For many threads.
class Board : public RunWatcher {
 public:
  explicit Board(ProgressMode mode);
  ~Board() override;
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  void begin(const std::vector<PlannedRun>& runs, const std::vector<std::size_t>& waiting) override;
  void step(std::size_t run, const StepResult& result) override;
  void finish(std::size_t run, const RunOutcome& outcome) override;

 private:
  std::string head() const;  ///< "run 3 of 20, ETA 4m10s"
  void rewrite();

  const std::vector<PlannedRun>* runs_ = nullptr;
  bool shown_, rewrites_, in_line_ = false;
  std::size_t finished_ = 0;
  Index steps_done_ = 0, steps_to_do_ = 0;
  std::map<std::size_t, StepResult> under_way_;
  std::chrono::steady_clock::time_point start_{}, last_shown_{};
  std::mutex mutex_;
};

}  // namespace headcount
