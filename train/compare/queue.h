#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "train/compare/runner.h"

namespace headcount {

/// Observer of the runs of a comparison. Its functions are called from many threads.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  /// Called before the runs `round` are trained, and whenever one of them has ended, here or in
  /// another process.
  virtual void update(const std::vector<RunPlan>& runs, std::span<const RunStatus> statuses,
                      std::span<const std::size_t> round) = 0;
  /// Called after each training step of `run`.
  virtual void step(std::size_t run, const StepResult& result) = 0;
  /// Called once when `run` has ended here, after the call of `update` that reports the end.
  virtual void finish(std::size_t run, const RunStatus& status) = 0;
};

/// Queue of a comparison's runs: their folders, so that any number of processes on any machines
/// that see the folders can share the runs. A run is under way while a process holds the lock of
/// its folder, and has ended once its run.json has a result or a failure. A process that dies
/// loses its locks, and another one resumes its runs from their checkpoints, to the same bits.
/// The folders' locks must work; without them, one process at a time may train the runs.
class RunQueue {
 public:
  /// `corpus` is, in a sweep, the one with the slice for tuning losses. Runs that ended before stay
  /// as they ended, unless they are to be trained `again`, or failed for another reason than
  /// divergence. Arguments must outlive the queue. Throws OtherRunError if a folder holds a
  /// finished run of other settings or text, and DataError for a damaged result.
  RunQueue(const std::vector<RunPlan>& runs, const Corpus& corpus, bool again, RunWatcher& watcher);

  /// Trains the runs `round`, in this order, several at a time (see Workers::share), until all of
  /// them have ended, here or in other processes. A run that fails does not stop the others. A
  /// signal that was caught (see interrupt.h) stops all runs; those under way save a checkpoint.
  /// Throws what the constructor throws.
  void train(std::vector<std::size_t> round, Index jobs);

  /// Statuses of all runs. Read them while no thread trains.
  const std::vector<RunStatus>& statuses() const { return statuses_; }

 private:
  using Clock = std::chrono::steady_clock;

  // Run that a job has taken, with the lock of its folder.
  struct Taken {
    std::size_t run;
    FolderLock lock;
  };
  bool train_next(const Workers& workers);
  std::optional<Taken> next();
  std::optional<Taken> take();
  void refresh();
  bool refresh(std::size_t run);
  void end(std::size_t run, RunStatus status);
  void update() { watcher_.update(runs_, statuses_, round_); }

  const std::vector<RunPlan>& runs_;
  const Corpus& corpus_;
  RunWatcher& watcher_;
  std::vector<RunStatus> statuses_;
  std::vector<std::size_t> round_;
  std::vector<std::size_t> waiting_;  // of the round: not ended, nor taken by a job here
  Clock::time_point refreshed_;       // when other processes' outcomes were last read
  std::mutex mutex_;                  // guards all above but `runs_` and `corpus_`
};

}  // namespace headcount
