#include "train/compare/queue.h"

#include <algorithm>
#include <numeric>
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

// Thrown by the observer to abandon a run that is not needed any more.
struct NotNeeded {};

}  // namespace

RunQueue::RunQueue(const std::vector<RunPlan>& runs, Needs needs, const Corpus& corpus, bool again,
                   RunWatcher& watcher)
    : runs_(runs),
      needs_of_(std::move(needs)),
      corpus_(corpus),
      watcher_(watcher),
      basis_(run_basis(corpus)),
      order_(runs.size()),
      statuses_(runs.size()),
      taken_(runs.size()) {
  // Seed by seed, so that a machine that slows down for a while does so for every variant.
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, {}, [&](std::size_t run) { return runs_[run].options.seed; });
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
  update();
}

bool RunQueue::waits_for(std::size_t run, Need need) const {
  return needs_[run] == need && !statuses_[run].ended;
}

bool RunQueue::all_ended() const {
  return std::ranges::none_of(order_, [&](std::size_t run) { return waits_for(run, Need::now); });
}

std::size_t RunQueue::left() const {
  return static_cast<std::size_t>(std::ranges::count_if(order_, [&](std::size_t run) {
    return waits_for(run, Need::now) || waits_for(run, Need::maybe);
  }));
}

void RunQueue::update() {
  refreshed_ = Clock::now();
  needs_ = needs_of_(statuses_);
  watcher_.update(runs_, statuses_, needs_);
  changed_.notify_all();
}

// Reads how a run ended, if another process or an earlier one has ended it; returns true if so.
bool RunQueue::refresh(std::size_t run) {
  auto status = read_run_status(runs_[run], basis_);
  if (status) statuses_[run] = std::move(*status);
  return statuses_[run].ended;
}

void RunQueue::refresh() {
  refreshed_ = Clock::now();
  bool changed = false;
  for (const std::size_t run : order_) {
    const bool wanted = waits_for(run, Need::now) || waits_for(run, Need::maybe);
    if (wanted && !taken_[run]) changed = refresh(run) || changed;
  }
  if (changed) update();
}

void RunQueue::ended(std::size_t run, RunStatus status) {
  status.ended = true;
  statuses_[run] = std::move(status);
  update();
  watcher_.finish(run, statuses_[run]);
}

// The first run of this need that no job or process trains.
std::optional<RunQueue::Taken> RunQueue::take(Need need) {
  for (const std::size_t run : order_) {
    if (!waits_for(run, need) || taken_[run]) continue;
    std::optional<FolderLock> lock;
    try {
      lock.emplace(runs_[run].folder);
    } catch (const LockedError&) {
      require_same_run(runs_[run], basis_);
      continue;
    } catch (const Error& error) {
      ended(run, {true, std::nullopt, error.what(), false});
      continue;
    }
    if (refresh(run)) {  // ended by another process since the last refresh
      update();
      continue;
    }
    taken_[run] = true;
    return Taken{run, std::move(*lock)};
  }
  return std::nullopt;
}

std::optional<RunQueue::Taken> RunQueue::next() {
  std::unique_lock lock(mutex_);
  for (bool looks = true; !interrupted();) {
    if (looks || Clock::now() - refreshed_ >= kRefreshEvery) {
      refresh();
      for (const Need need : {Need::now, Need::maybe}) {
        if (all_ended()) return std::nullopt;
        if (auto taken = take(need)) return taken;
      }
    }
    looks = changed_.wait_for(lock, kSignalEvery) == std::cv_status::no_timeout;
  }
  return std::nullopt;
}

bool RunQueue::step(std::size_t run, const StepResult& result) {
  {
    const std::lock_guard lock(mutex_);
    if (needs_[run] == Need::maybe && Clock::now() - refreshed_ >= kRefreshEvery) refresh();
    if (needs_[run] == Need::no) return false;
  }
  watcher_.step(run, result);
  return true;
}

void RunQueue::end(std::size_t run, RunStatus status) {
  const std::lock_guard lock(mutex_);
  ended(run, std::move(status));
}

// Trains one run of the queue. Returns false if there is none left.
bool RunQueue::train_next(const Workers& workers) {
  const std::optional<Taken> taken = next();
  if (!taken) return false;
  const RunPlan& run = runs_[taken->run];
  const auto observe = [&](const StepResult& result, std::optional<double>, double) {
    if (!step(taken->run, result)) throw NotNeeded();
  };
  RunStatus status;
  try {
    status.result = train_run(run, corpus_, basis_, workers, taken->lock, observe);
  } catch (const NotNeeded&) {
    return true;
  } catch (const InterruptedError&) {
    return false;
  } catch (const OtherRunError&) {  // of another run
    throw;
  } catch (const std::exception& error) {
    status.failure = error.what();
    status.diverged = dynamic_cast<const NonFiniteError*>(&error) != nullptr;
    write_run_failure(run, status, basis_);
  }
  end(taken->run, std::move(status));
  return true;
}

void RunQueue::train(const Workers& workers) {
  const int threads_before = threads();
  on_threads(workers.jobs, "lower `jobs`", [&] {
    set_threads(workers.threads);
    while (train_next(workers)) continue;
  });
  set_threads(threads_before);
}

}  // namespace headcount
