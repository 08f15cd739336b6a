#include "train/compare/runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <nlohmann/json.hpp>
#include <system_error>

#include "autograd/parallel.h"
#include "data/text.h"
#include "train/compare/run_queue.h"
#include "train/compare/run_result.h"
#include "train/provenance.h"
#include "train/training_run.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;
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
nlohmann::json basis(const PlannedRun& run, const Corpus& corpus,
                     std::span<const std::int32_t> tuning) {
  nlohmann::json basis = {{"data_sha256", corpus.sha256},
                          {"train_characters", corpus.train.size()},
                          {"tuning_characters", tuning.size()}};
  if (!run.options.init.empty())
    basis["init_sha256"] = sha256_of_file(fs::path(run.options.init) / "model.safetensors");
  return basis;
}

RunResult train(const PlannedRun& run, const Corpus& corpus, std::span<const std::int32_t> tuning,
                const Workers& workers, const StepObserver& observe) {
  const Clock::time_point start = Clock::now();
  RunResult result;
  result.seed = run.options.seed;
  LossCurve curve(run.options.steps, result);
  const std::unique_ptr<LanguageModel> model = initial_model(run.options, corpus.vocabulary);
  RunFolder folder = RunFolder::create(run.folder, run.options, corpus.sha256, run.command, true);
  const TrainingOutcome outcome = train_to_end(
      run.options, *model, corpus, &folder,
      [&](const StepResult& step, std::optional<double> validation, double training_seconds) {
        curve.add(step.step, step.loss);
        observe(step, validation, training_seconds);
      });
  result.validation_loss = outcome.validation.loss;
  result.answer_accuracy = outcome.validation.answer_accuracy;
  result.answers_by_distance = outcome.validation.answers_by_distance;
  if (!tuning.empty())
    result.tuning_loss = evaluate(*model, tuning, {.marks = corpus.tuning_marks()}).loss;
  result.train_tokens_per_second = outcome.tokens_per_second(run.options);
  result.machine_seconds =
      std::chrono::duration<double>(Clock::now() - start).count() / workers.jobs;
  result.version = version_text();
  result.machine = machine_text() + "; " + workers.text();
  write_run_result(run, result, basis(run, corpus, tuning), workers.text());
  return result;
}

// Thrown out of the training of a run that is not needed any more.
struct NotNeeded {};

// Calls `work` on `jobs` threads, this one among them, or on none if the system refuses one.
void side_by_side(int jobs, const std::function<void()>& work) {
  std::latch all_there(1);
  std::atomic<bool> refused = false;
  std::vector<std::future<void>> others;
  try {
    for (int job = 1; job < jobs; ++job) {
      others.push_back(std::async(std::launch::async, [&] {
        all_there.wait();
        if (!refused) work();
      }));
    }
  } catch (const std::system_error& error) {
    refused = true;
    all_there.count_down();
    throw Error("cannot start a thread for each of " + std::to_string(jobs) +
                " jobs: " + error.code().message() + "; lower `jobs`");
  }
  all_there.count_down();
  work();
  for (std::future<void>& other : others) other.get();
}

}  // namespace

Workers Workers::share(int threads, Index jobs, std::size_t runs, int ranks) {
  const auto share = static_cast<int>(std::max<std::size_t>(1, runs)) / ranks;
  Workers workers;
  workers.jobs =
      std::clamp<int>(jobs > 0 ? static_cast<int>(jobs) : threads, 1, std::max(1, share));
  workers.threads = std::max(1, threads / workers.jobs);
  workers.ranks = ranks;
  return workers;
}

std::string Workers::text() const {
  return "runs side by side: " + std::to_string(jobs) +
         ", threads of each: " + std::to_string(threads) +
         (ranks > 1 ? ", ranks: " + std::to_string(ranks) : "");
}

double work_of(const TrainOptions& options, Index vocabulary) {
  const ModelConfig& model = options.model;
  const auto product = [](auto... factors) { return (static_cast<double>(factors) * ...); };
  const Index parameters = LanguageModel(model, vocabulary).parameters().element_count();
  return product(options.steps, options.accumulate, options.batch, model.context) *
         (product(parameters) + product(model.layers, model.context, model.dim));
}

namespace {

// Trains one run of the queue; false when there is no more.
bool train_next(const RunTask& task, RunQueue& queue) {
  const auto i = queue.next();
  if (!i) return false;
  const PlannedRun& run = task.runs[*i];
  RunOutcome outcome;
  try {
    outcome.result = train(run, task.corpus, task.tuning, task.workers,
                           [&](const StepResult& step, std::optional<double>, double) {
                             if (!queue.step(*i, step)) throw NotNeeded();
                           });
  } catch (const NotNeeded&) {
    return true;
  } catch (const std::exception& error) {
    outcome.failure = error.what();
    outcome.diverged = dynamic_cast<const DivergedError*>(&error) != nullptr;
    // Whoever has the folder of a run says how that run ends.
    const bool of_another = dynamic_cast<const LockedError*>(&error) != nullptr;
    if (!task.elsewhere.empty() && !of_another)
      write_run_failure(run, outcome, basis(run, task.corpus, task.tuning));
  }
  queue.end(*i, std::move(outcome));
  return true;
}

void train_all(const RunTask& task, RunQueue& queue) {
  const int threads_before = threads();
  side_by_side(task.workers.jobs, [&] {
    set_threads(task.workers.threads);
    while (train_next(task, queue)) continue;
  });
  set_threads(threads_before);
}

// How runs ended before, as their folders tell.
std::vector<RunOutcome> outcomes_before(const RunTask& task) {
  std::vector<RunOutcome> before(task.runs.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool other = !task.elsewhere.empty() && task.elsewhere[i];
    const nlohmann::json on = basis(task.runs[i], task.corpus, task.tuning);
    if (other || !task.again) before[i].result = read_run_result(task.runs[i], on);
    before[i].reused = before[i].ended = before[i].result.has_value();
    if (other && !before[i].ended)
      before[i] = read_run_failure(task.runs[i], on).value_or(RunOutcome());
  }
  return before;
}

}  // namespace

std::vector<RunOutcome> run_all(const RunTask& task, RunWatcher& watcher) {
  if (task.ranks.rank() > 0) {
    DistantQueue queue(task.ranks, task.runs.size());
    train_all(task, queue);
    return {};
  }
  std::vector<double> work;
  if (task.ranks.size() > 1) {
    for (const PlannedRun& run : task.runs)
      work.push_back(work_of(run.options, task.corpus.vocabulary.size()));
  }
  OwnQueue queue(task.runs, task.needs, outcomes_before(task), task.elsewhere, std::move(work),
                 watcher);
  {
    std::future<void> serving;
    if (task.ranks.size() > 1)
      serving = std::async(std::launch::async, [&] { queue.serve(task.ranks); });
    train_all(task, queue);
    if (serving.valid()) serving.get();
  }
  return std::move(queue).outcomes();
}

}  // namespace headcount
