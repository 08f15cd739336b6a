#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "train/compare/runner.h"

namespace headcount {

/// Queue of runs that the jobs of a comparison take; each job has a thread of its own.
class JobQueue {
 public:
  virtual ~JobQueue() = default;
  /// Returns the run to train next; none when all needed runs have ended, or after a signal.
  virtual std::optional<std::size_t> next() = 0;
  /// Call after each step of a run. Returns false if the run has turned out not to be needed.
  virtual bool step(std::size_t run, const StepResult& result) = 0;
  /// Call when a run has ended, with its outcome.
  virtual void end(std::size_t run, RunOutcome outcome) = 0;
};

/// Queue of rank 0: runs to be trained, under way and ended.
class LocalQueue : public JobQueue {
 public:
  /// `outcomes` has those of runs that ended before; `elsewhere`, if not empty, marks runs that are
  /// not to be trained here. Needed runs come longest first if `work` says how long they take,
  /// otherwise seed by seed.
  LocalQueue(const std::vector<PlannedRun>& runs, const Needs& needs,
             std::vector<RunOutcome> outcomes, const std::vector<bool>& elsewhere,
             std::vector<double> work, RunWatcher& watcher);

  std::optional<std::size_t> next() override;
  bool step(std::size_t run, const StepResult& result) override;
  void end(std::size_t run, RunOutcome outcome) override;

  /// Answers the RemoteQueues of the other ranks until all of them have left.
  void serve(Ranks& ranks);

  std::vector<RunOutcome> outcomes() && { return std::move(outcomes_); }

 private:
  struct RunState {
    Need need = Need::no;
    bool taken = false;      // by a job, or trained by another process
    bool elsewhere = false;  // trained by another process
    std::atomic<bool> dropped = false;
  };

  void update();
  bool waiting_for_any() const;
  bool before(std::size_t run, std::size_t other, Need need) const;
  std::optional<std::size_t> take();
  nlohmann::json reply(const nlohmann::json& question, int& left);

  const std::vector<PlannedRun>& runs_;
  const Needs& needs_of_;
  std::vector<RunOutcome> outcomes_;
  std::vector<RunState> states_;
  std::vector<double> work_;
  RunWatcher& watcher_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// Queue of rank 0 as seen from another rank: each call asks rank 0.
class RemoteQueue : public JobQueue {
 public:
  RemoteQueue(Ranks& ranks, std::size_t runs) : ranks_(ranks), told_(runs) {}
  ~RemoteQueue() override;

  std::optional<std::size_t> next() override;
  bool step(std::size_t run, const StepResult& result) override;
  void end(std::size_t run, RunOutcome outcome) override;

 private:
  nlohmann::json ask(nlohmann::json question);

  Ranks& ranks_;
  std::vector<std::chrono::steady_clock::time_point> told_;  // by run: time of the newest report
};

}  // namespace headcount
