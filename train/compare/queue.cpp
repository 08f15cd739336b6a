#include "train/compare/queue.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "autograd/parallel.h"
#include "train/compare/result_files.h"
#include "train/interrupt.h"
#include "train/threads.h"

namespace headcount {

namespace {

// How often outcomes of other processes are read, and how soon a waiting job sees a signal.
constexpr auto kRefreshEvery = std::chrono::seconds(1);
constexpr auto kSignalEvery = std::chrono::milliseconds(100);

}  // namespace

RunQueue::RunQueue(const std::vector<RunPlan>& runs, const Corpus& corpus, bool again,
                   RunWatcher& watcher)
    : runs_(runs), corpus_(corpus), watcher_(watcher), statuses_(runs.size()) {
  // All runs to be trained again are forgotten first, so that a comparison that is stopped and
  // continued takes none of their old results.
  for (const RunPlan& run : runs)
    if (again) forget_run(run);
  for (std::size_t run = 0; run < runs.size(); ++run) {
    refresh(run);
    const RunStatus& status = statuses_[run];
    if (!status.ended || status.result || status.diverged) continue;  // it would diverge again
    forget_failure(runs[run]);
    statuses_[run] = {};
  }
}

// Reads how a run ended, if another process or an earlier one has ended it; returns true if so.
bool RunQueue::refresh(std::size_t run) {
  auto status = read_run_status(runs_[run], corpus_);
  if (status) statuses_[run] = std::move(*status);
  return statuses_[run].ended;
}

void RunQueue::refresh() {
  refreshed_ = Clock::now();
  if (std::erase_if(waiting_, [&](std::size_t run) { return refresh(run); }) > 0) update();
}

// A run that has ended here.
void RunQueue::end(std::size_t run, RunStatus status) {
  status.ended = true;
  statuses_[run] = std::move(status);
  update();
  watcher_.finish(run, statuses_[run]);
}

// The first run that no job or process trains.
std::optional<RunQueue::Taken> RunQueue::take() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const std::size_t run = *at;
    std::optional<FolderLock> lock;
    try {
      lock.emplace(runs_[run].folder);
    } catch (const LockedError&) {
      require_same_run(runs_[run], corpus_);
      ++at;
      continue;
    } catch (const Error& error) {
      at = waiting_.erase(at);
      end(run, {true, std::nullopt, error.what(), false});
      continue;
    }
    const bool ended = refresh(run);  // by another process, since the last refresh
    at = waiting_.erase(at);
    if (!ended) return Taken{run, std::move(*lock)};
    update();
  }
  return std::nullopt;
}

// The run to train next, or none when all runs of the round have ended or are trained here, or
// after a signal. Waits while other processes train the last ones.
std::optional<RunQueue::Taken> RunQueue::next() {
  for (bool looks = true; !interrupted(); looks = false) {
    {
      const std::lock_guard lock(mutex_);
      if (looks || Clock::now() - refreshed_ >= kRefreshEvery) {
        refresh();
        if (auto taken = take()) return taken;
      }
      if (waiting_.empty()) return std::nullopt;
    }
    std::this_thread::sleep_for(kSignalEvery);
  }
  return std::nullopt;
}

// Trains one run of the round. Returns false if there is none left.
bool RunQueue::train_next(const Workers& workers) {
  const std::optional<Taken> taken = next();
  if (!taken) return false;
  const RunPlan& run = runs_[taken->run];
  const auto observe = [&](const StepResult& result, std::optional<double>, double) {
    watcher_.step(taken->run, result);
  };
  RunStatus status;
  try {
    status.result = train_run(run, corpus_, workers, taken->lock, observe);
  } catch (const InterruptedError&) {
    return false;
  } catch (const OtherRunError&) {  // of another run
    throw;
  } catch (const std::exception& error) {
    status.failure = error.what();
    status.diverged = dynamic_cast<const NonFiniteError*>(&error) != nullptr;
    write_run_failure(run, status, corpus_);
  }
  // The outcome is in the folder before its lock is released.
  const std::lock_guard lock(mutex_);
  end(taken->run, std::move(status));
  return true;
}

void RunQueue::train(std::vector<std::size_t> round, Index jobs) {
  round_ = waiting_ = std::move(round);
  std::erase_if(waiting_, [&](std::size_t run) { return statuses_[run].ended; });
  update();
  const int threads_before = threads();
  const Workers workers = Workers::share(threads_before, jobs, waiting_.size());
  on_threads(workers.jobs, "lower `jobs`", [&] {
    set_threads(workers.threads);
    while (train_next(workers)) continue;
  });
  set_threads(threads_before);
}

}  // namespace headcount
