#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "train/compare/runner.h"

namespace headcount {

/// Decision whether to train a run.
enum class Need {
  now,
  maybe,  ///< other runs will tell; trained only where a job would be idle
  no,
};
/// Decision about each run, given the states of all so far. `now` is final, and so is `no` after
/// `maybe`: such a run may have been begun and is then given up for good.
using Needs = std::function<std::vector<Need>(std::span<const RunStatus>)>;

/// Observer of the runs of a comparison. Its functions are called from many threads.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  /// Called before any run is trained, and whenever a run has ended, here or in another process.
  virtual void update(const std::vector<RunPlan>& runs, std::span<const RunStatus> statuses,
                      std::span<const Need> needs) = 0;
  /// Called after each training step of `run`.
  virtual void step(std::size_t run, const StepResult& result) = 0;
  /// Called once when `run` has ended here, after the call of `update` that reports the end.
  virtual void finish(std::size_t run, const RunStatus& status) = 0;
};

/// Queue of a comparison's runs: their folders, so that any number of processes on any machines
/// that see the folders can share the runs. A run is under way while a process holds the lock of
/// its folder, and has ended once the folder has result.json or failed.json. A process that dies
/// loses its locks, and another one resumes its runs from their checkpoints, to the same bits.
/// The folders' locks must work; without them, one process at a time may train the runs.
class RunQueue {
 public:
  /// `corpus` is, in a sweep, the one with the slice for tuning losses. Runs that ended before stay
  /// as they ended, unless they are to be trained `again`, or failed for another reason than
  /// divergence. Arguments must outlive the queue. Throws OtherRunError if a folder holds a
  /// finished run of other settings or text, and DataError for a damaged result.
  RunQueue(const std::vector<RunPlan>& runs, Needs needs, const Corpus& corpus, bool again,
           RunWatcher& watcher);

  /// Trains needed runs, several at a time, until all of them have ended, here or in other
  /// processes. A run that fails does not stop the others; a run that turns out not to be needed is
  /// abandoned where it is. A signal that was caught (see interrupt.h) stops all runs; those under
  /// way save a checkpoint. Throws what the constructor throws.
  void train(const Workers& workers);

  /// Number of runs that have not ended and that are needed or may be.
  std::size_t left() const;
  /// States of all runs. Read them while no thread trains.
  const std::vector<RunStatus>& statuses() const { return statuses_; }

  /// Run that a job has taken, with the lock of its folder.
  struct Taken {
    std::size_t run;
    FolderLock lock;
  };
  /// The run to train next, or none when all needed runs have ended, or after a signal. Waits while
  /// other jobs or processes train the last ones.
  std::optional<Taken> next();
  /// Call after each step of a run. Returns false if the run has turned out not to be needed.
  bool step(std::size_t run, const StepResult& result);
  /// Call when a run has ended here. Its outcome must be in the folder before the lock is released.
  void end(std::size_t run, RunStatus status);

 private:
  using Clock = std::chrono::steady_clock;

  bool train_next(const Workers& workers);
  bool waits_for(std::size_t run, Need need) const;
  bool all_ended() const;
  void update();
  void refresh();
  bool refresh(std::size_t run);
  void ended(std::size_t run, RunStatus status);
  std::optional<Taken> take(Need need);

  const std::vector<RunPlan>& runs_;
  Needs needs_of_;
  const Corpus& corpus_;
  RunWatcher& watcher_;
  nlohmann::json basis_;            // see run_basis
  std::vector<std::size_t> order_;  // seed by seed
  std::vector<RunStatus> statuses_;
  std::vector<Need> needs_;
  std::vector<bool> taken_;      // by a job of this process
  Clock::time_point refreshed_;  // when other processes' outcomes were last read
  std::mutex mutex_;             // guards all above but `runs_`, `corpus_` and `basis_`
  std::condition_variable changed_;
};

}  // namespace headcount
