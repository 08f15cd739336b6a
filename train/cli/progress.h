#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus.h"
#include "train/compare/queue.h"
#include "train/trainer.h"

namespace headcount {

/// How progress is shown. automatic: one rewritten line on a terminal, plain lines elsewhere;
/// always: one rewritten line in any case; never: nothing.
enum class ProgressMode { automatic, always, never };

/// Width of the terminal that a file descriptor is; none if it is no terminal.
std::optional<Index> terminal_columns(int file);

/// Progress on standard error: one line that is rewritten, or plain lines.
class Progress {
 public:
  explicit Progress(ProgressMode mode);
  /// Ends the rewritten line, if there is one, so that later output starts on a new line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Returns true if progress is one rewritten line: with `always`, and with `automatic` if
  /// standard error is a terminal that can.
  bool rewrites() const { return rewrites_; }

  /// Returns true if the line is rewritten and was not for a tenth of a second.
  bool is_due() const;
  /// Rewrites the line with `fields`, the most important first, and `separator` between them, or
  /// writes a plain one. Fields that do not fit the terminal's width are left out of a rewritten
  /// line; only the first is ever cut.
  void show(const std::vector<std::string>& fields, const std::string& separator);
  /// Writes `line` on a line of its own, if progress is shown.
  void tell(const std::string& line);

 private:
  bool shown_, rewrites_, in_line_ = false;
  std::chrono::steady_clock::time_point rewritten_{};
};

/// Progress of a training run: what it takes, and on a terminal the newest step, otherwise one
/// plain line per interval.
class RunProgress {
 public:
  /// Says how large model and text are. The run has done `steps_before` of its steps already; its
  /// speed is measured over the remaining ones. The arguments must outlive this object.
  RunProgress(ProgressMode mode, const TrainOptions& options, const Learner& learner,
              const Corpus& corpus, Index steps_before = 0);

  /// Call after each step, with `validation_loss` if the step ended with an evaluation, and the
  /// seconds of all steps trained by this process. After the first steps it says once what time and
  /// memory the run takes.
  void update(const StepResult& result, std::optional<double> validation_loss,
              double training_seconds);

 private:
  void show(const StepResult& result, double training_seconds);
  void tell_estimate(const StepResult& result, double training_seconds);

  Progress progress_;
  const TrainOptions& options_;
  const Corpus& corpus_;
  Index steps_before_;
  Index tokens_ = 0;          // read in the steps since
  double first_seconds_ = 0;  // of the first step
  std::optional<double> validation_loss_;
  Index validation_step_ = 0;  // of validation_loss_
};

/// Progress of a comparison on standard error: about twenty plain lines a round on finished runs,
/// one for each that failed, and on a terminal one rewritten line with the loss of each run under
/// way. Thread-safe.
class ComparisonProgress : public RunWatcher {
 public:
  /// The line `warning`, if it is not empty, is written before a run is trained.
  ComparisonProgress(ProgressMode mode, std::string warning)
      : progress_(mode), warning_(std::move(warning)) {}

  void update(const std::vector<RunPlan>& runs, std::span<const RunStatus> statuses,
              std::span<const std::size_t> round) override;
  void step(std::size_t run, const StepResult& result) override;
  void finish(std::size_t run, const RunStatus& status) override;

 private:
  struct Run {
    std::string name;
    bool wanted = false, ended = false;  // wanted: in a round so far
    bool stops_when_learned = false;
    Index steps = 0;                   // that it is expected to train
    std::optional<StepResult> newest;  // of a run under way
  };
  /// Beginning of the progress line: "3 of 20 runs done, ETA 4m10s".
  std::string head() const;
  std::string done() const;  // "3 of 20 runs"
  std::ptrdiff_t ended() const { return std::ranges::count(runs_, true, &Run::ended); }
  std::ptrdiff_t wanted() const { return std::ranges::count(runs_, true, &Run::wanted); }

  Progress progress_;
  std::string warning_;
  std::vector<Run> runs_;
  bool estimated_ = false;
  Index steps_done_ = 0;
  std::chrono::steady_clock::time_point start_{};
  std::mutex mutex_;
};

}  // namespace headcount
