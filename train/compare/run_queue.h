#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "train/compare/runner.h"

namespace headcount {

/// Where the jobs of a comparison get their runs, each job on a thread of its own.
class RunQueue {
 public:
  virtual ~RunQueue() = default;
  /// The run to train next; none when all that is needed has ended, or after a signal.
  virtual std::optional<std::size_t> next() = 0;
  /// After a step of a run. False: it has turned out not to be needed.
  virtual bool step(std::size_t run, const StepResult& result) = 0;
  /// A run has ended.
  virtual void end(std::size_t run, RunOutcome outcome) = 0;
};

/// The queue itself: which runs are to be trained, under way and ended.
class OwnQueue : public RunQueue {
 public:
  /// `outcomes` of runs that have ended before; `elsewhere`, if not empty, says which runs are not
  /// to be trained here. The runs that are needed come with the longest first where `work` says how
  /// long they take, otherwise seed by seed.
  OwnQueue(const std::vector<PlannedRun>& runs, const Needs& needs,
           std::vector<RunOutcome> outcomes, std::vector<bool> elsewhere, std::vector<double> work,
           RunWatcher& watcher);

  std::optional<std::size_t> next() override;
  bool step(std::size_t run, const StepResult& result) override;
  void end(std::size_t run, RunOutcome outcome) override;

  /// Answers the questions of the other ranks' queues until all of them have left.
  void serve(Ranks& ranks);

  std::vector<RunOutcome> outcomes() && { return std::move(outcomes_); }

 private:
  void update();
  bool waiting_for_any() const;
  bool before(std::size_t run, std::size_t other, Need need) const;
  std::optional<std::size_t> first_of(Need need) const;
  std::optional<std::size_t> take();
  nlohmann::json reply(const nlohmann::json& question, int& left);
  nlohmann::json reply_to(const nlohmann::json& question, int& left);

  const std::vector<PlannedRun>& runs_;
  const Needs& needs_of_;
  std::vector<RunOutcome> outcomes_;
  std::vector<Need> needs_;
  std::vector<bool> begun_;  // or not to be trained here
  std::vector<std::atomic<bool>> dropped_;
  std::vector<bool> elsewhere_;
  std::vector<double> work_;
  RunWatcher& watcher_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// The queue of rank 0, as another rank sees it.
class DistantQueue : public RunQueue {
 public:
  DistantQueue(Ranks& ranks, std::size_t runs) : ranks_(ranks), told_(runs) {}
  ~DistantQueue() override;

  std::optional<std::size_t> next() override;
  bool step(std::size_t run, const StepResult& result) override;
  void end(std::size_t run, RunOutcome outcome) override;

 private:
  nlohmann::json ask(nlohmann::json question);

  Ranks& ranks_;
  std::vector<std::chrono::steady_clock::time_point> told_;  // by run: when of its progress
};

}  // namespace headcount
