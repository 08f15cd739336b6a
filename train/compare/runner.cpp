#include "train/compare/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
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

std::vector<RunOutcome> run_all(const std::vector<PlannedRun>& runs, const Corpus& corpus,
                                std::span<const std::int32_t> tuning, const Workers& workers,
                                bool again, RunWatcher& watcher) {
  std::vector<RunOutcome> outcomes(runs.size());
  std::vector<std::size_t> waiting;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!again) outcomes[i].result = read_run_result(runs[i], basis(corpus, tuning));
    outcomes[i].reused = outcomes[i].result.has_value();
    if (!outcomes[i].reused) waiting.push_back(i);
  }
  // Seed by seed, so that a machine that slows down for a while does so for every variant.
  std::ranges::stable_sort(waiting, {}, [&](std::size_t i) { return runs[i].options.seed; });
  watcher.begin(runs, waiting);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    set_threads(workers.threads);
    for (std::size_t k; (k = next++) < waiting.size();) {
      const std::size_t i = waiting[k];
      RunOutcome& outcome = outcomes[i];
      try {
        outcome.result = train(
            runs[i], corpus, tuning, workers,
            [&](const StepResult& step, std::optional<double>, double) { watcher.step(i, step); });
      } catch (const std::exception& error) {
        outcome.failure = error.what();
        outcome.diverged = dynamic_cast<const DivergedError*>(&error) != nullptr;
      }
      watcher.finish(i, outcome);
    }
  };
  const int threads_before = threads();
  side_by_side(workers.jobs, work);
  set_threads(threads_before);
  return outcomes;
}

}  // namespace headcount
