#include "train/compare/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <latch>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "autograd/parallel.h"
#include "train/compare/run_result.h"
#include "train/provenance.h"
#include "train/training_run.h"

namespace headcount {

namespace {

using Clock = std::chrono::steady_clock;

constexpr Index kCurvePoints = 100;

// Mean training losses over equal stretches of a run.
class LossCurve {
 public:
  LossCurve(Index steps, RunResult& result)
      : stretch_(std::max<Index>(1, steps / kCurvePoints)), steps_(steps), result_(result) {}

  void add(Index step, double loss) {
    sum_ += loss;
    ++count_;
    if (step % stretch_ != 0 && step != steps_) return;
    result_.curve_steps.push_back(step);
    result_.curve_losses.push_back(sum_ / static_cast<double>(count_));
    sum_ = 0;
    count_ = 0;
  }

 private:
  Index stretch_, steps_, count_ = 0;
  double sum_ = 0;
  RunResult& result_;
};

// What a result depends on besides the settings.
nlohmann::json basis(const Corpus& corpus, std::span<const std::int32_t> tuning) {
  return {{"data_sha256", corpus.sha256},
          {"train_characters", corpus.train.size()},
          {"tuning_characters", tuning.size()}};
}

RunResult train(const PlannedRun& run, const Corpus& corpus, std::span<const std::int32_t> tuning,
                const Workers& workers, const StepObserver& observe) {
  const Clock::time_point start = Clock::now();
  RunResult result;
  result.seed = run.options.seed;
  LossCurve curve(run.options.steps, result);
  LanguageModel model(run.options.model, corpus.vocabulary.size());
  model.initialize(run.options.seed);
  RunFolder folder = RunFolder::create(run.folder, run.options, corpus.sha256, run.command, true);
  const TrainingOutcome outcome = train_to_end(
      run.options, model, corpus, folder,
      [&](const StepResult& step, std::optional<double> validation, double training_seconds) {
        curve.add(step.step, step.loss);
        observe(step, validation, training_seconds);
      });
  result.validation_loss = outcome.validation.loss;
  result.answer_accuracy = outcome.validation.answer_accuracy;
  result.answers_by_distance = outcome.validation.answers_by_distance;
  if (!tuning.empty())
    result.tuning_loss = evaluate(model, tuning, {.marks = corpus.tuning_marks()}).loss;
  result.train_tokens_per_second = outcome.tokens_per_second(run.options);
  result.machine_seconds =
      std::chrono::duration<double>(Clock::now() - start).count() / workers.jobs;
  result.version = version_text();
  result.machine = machine_text() + "; " + workers.text();
  write_run_result(run, result, basis(corpus, tuning), workers.text());
  return result;
}

// Thrown out of the training of a run that is not needed any more.
struct NotNeeded {};

// Which runs are to be trained, under way and ended: for many threads.
class Pool {
 public:
  Pool(const std::vector<PlannedRun>& runs, const Needs& needs, std::vector<RunOutcome> outcomes,
       RunWatcher& watcher)
      : runs_(runs),
        needs_of_(needs),
        outcomes_(std::move(outcomes)),
        begun_(runs.size()),
        dropped_(runs.size()),
        watcher_(watcher) {
    for (std::size_t run = 0; run < runs.size(); ++run) begun_[run] = outcomes_[run].ended;
    update();
  }

  // The run to train next; none when all that is needed has ended.
  std::optional<std::size_t> next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!waiting_for_any()) return std::nullopt;
      std::optional<std::size_t> run = first_of(Need::now);
      if (!run) run = first_of(Need::maybe);
      if (run) {
        begun_[*run] = true;
        return run;
      }
      changed_.wait(lock);
    }
  }

  bool dropped(std::size_t run) const { return dropped_[run]; }

  void end(std::size_t run, RunOutcome outcome) {
    const std::lock_guard lock(mutex_);
    outcome.ended = true;
    outcomes_[run] = std::move(outcome);
    update();
    watcher_.finish(run, outcomes_[run]);
    changed_.notify_all();
  }

  std::vector<RunOutcome> outcomes() && { return std::move(outcomes_); }

 private:
  void update() {
    needs_ = needs_of_(outcomes_);
    for (std::size_t run = 0; run < needs_.size(); ++run) dropped_[run] = needs_[run] == Need::no;
    watcher_.update(runs_, outcomes_, needs_);
  }
  bool waiting_for_any() const {
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (needs_[run] == Need::now && !outcomes_[run].ended) return true;
    }
    return false;
  }
  // Seed by seed, so that a machine that slows down for a while does so for every variant.
  std::optional<std::size_t> first_of(Need need) const {
    std::optional<std::size_t> first;
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      if (begun_[run] || needs_[run] != need) continue;
      if (!first || runs_[run].options.seed < runs_[*first].options.seed) first = run;
    }
    return first;
  }

  const std::vector<PlannedRun>& runs_;
  const Needs& needs_of_;
  std::vector<RunOutcome> outcomes_;
  std::vector<Need> needs_;
  std::vector<bool> begun_;
  std::vector<std::atomic<bool>> dropped_;
  RunWatcher& watcher_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

// Calls `work` on `jobs` threads, this one among them, or on none if the system refuses one.
void side_by_side(int jobs, const std::function<void()>& work) {
  std::latch all_there(1);
  std::atomic<bool> refused = false;
  std::vector<std::jthread> others;
  try {
    for (int job = 1; job < jobs; ++job) {
      others.emplace_back([&] {
        all_there.wait();
        if (!refused) work();
      });
    }
  } catch (const std::system_error& error) {
    refused = true;
    all_there.count_down();
    throw Error("cannot start a thread for each of " + std::to_string(jobs) +
                " jobs: " + error.code().message() + "; lower `jobs`");
  }
  all_there.count_down();
  work();
}

}  // namespace

Workers Workers::share(int threads, Index jobs, std::size_t runs) {
  Workers workers;
  workers.jobs = std::clamp<int>(jobs > 0 ? static_cast<int>(jobs) : threads, 1,
                                 static_cast<int>(std::max<std::size_t>(1, runs)));
  workers.threads = std::max(1, threads / workers.jobs);
  return workers;
}

std::string Workers::text() const {
  return "runs side by side: " + std::to_string(jobs) +
         ", threads of each: " + std::to_string(threads);
}

std::vector<RunOutcome> run_all(const std::vector<PlannedRun>& runs, const Needs& needs,
                                const Corpus& corpus, std::span<const std::int32_t> tuning,
                                const Workers& workers, bool again, RunWatcher& watcher) {
  std::vector<RunOutcome> before(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!again) before[i].result = read_run_result(runs[i], basis(corpus, tuning));
    before[i].reused = before[i].ended = before[i].result.has_value();
  }
  Pool pool(runs, needs, std::move(before), watcher);
  const auto train_one = [&](std::size_t i) {
    RunOutcome outcome;
    try {
      outcome.result = train(runs[i], corpus, tuning, workers,
                             [&](const StepResult& step, std::optional<double>, double) {
                               if (pool.dropped(i)) throw NotNeeded();
                               watcher.step(i, step);
                             });
    } catch (const NotNeeded&) {
      return;
    } catch (const std::exception& error) {
      outcome.failure = error.what();
      outcome.diverged = dynamic_cast<const DivergedError*>(&error) != nullptr;
    }
    pool.end(i, std::move(outcome));
  };
  const int threads_before = threads();
  side_by_side(workers.jobs, [&] {
    set_threads(workers.threads);
    while (const auto run = pool.next()) train_one(*run);
  });
  set_threads(threads_before);
  return std::move(pool).outcomes();
}

}  // namespace headcount
