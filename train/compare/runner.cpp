#include "train/compare/runner.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/parallel.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/contents.h"
#include "train/compare/job_queue.h"
#include "train/compare/result_files.h"
#include "train/interrupt.h"
#include "train/run/folder.h"
#include "train/run/loaded.h"
#include "train/run/provenance.h"
#include "train/threads.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr Index kCurvePoints = 100;

// Mean training losses over equal stretches of a run, over all its starts.
void read_curve(const PlannedRun& run, RunResult& result) {
  const Index steps = run.options.steps, stretch = std::max<Index>(1, steps / kCurvePoints);
  std::ifstream metrics(run.folder / "metrics.jsonl");
  double sum = 0;
  Index count = 0;
  for (std::string text; std::getline(metrics, text);) {
    const nlohmann::json line = parse_json(text);
    const Index step = line.at("step");
    sum += line.at("loss").get<double>();
    ++count;
    if (step % stretch != 0 && step != steps) continue;
    result.curve_steps.push_back(step);
    result.curve_losses.push_back(sum / static_cast<double>(count));
    sum = 0;
    count = 0;
  }
}

// Contents of files, on which a result depends besides settings.
nlohmann::json basis(const PlannedRun& run, const Corpus& corpus) {
  // Beside the hash and not in the settings, which earlier versions recorded without `newlines`.
  nlohmann::json basis = {
      {"data_sha256", corpus.sha256 + (corpus.newlines_replaced ? ", unix" : "")},
      {"train_characters", corpus.train.tokens.size()},
      {"tuning_characters", corpus.tuning.tokens.size()}};
  if (!run.options.init.empty())
    basis["init_sha256"] = sha256_of_file(fs::path(run.options.init) / kWeightsFile);
  return basis;
}

// Time that a run takes, over all its starts.
class RunClock {
 public:
  RunClock(const PlannedRun& run, const nlohmann::json& basis, int jobs)
      : run_(run), basis_(basis), jobs_(jobs) {}

  void go_on_from(const TimeSpent& before) { before_ = before; }
  // Call after each step; `seconds` is the time spent on steps since this start.
  void step(double seconds) {
    steps_ += seconds > step_seconds_;  // an earlier start may have taken the first one
    step_seconds_ = seconds;
  }
  TimeSpent spent() const {
    return {before_.machine_seconds + seconds_since(start_) / jobs_, before_.steps + steps_,
            before_.step_seconds + step_seconds_};
  }
  // Returns true if a checkpoint is due after this step: by number, or after five minutes.
  bool checkpoint_is_due(Index step) const {
    constexpr double kSeconds = 300;
    const Index every = run_.options.checkpoint_every;
    return every > 0 ? step % every == 0 : seconds_since(saved_) >= kSeconds;
  }
  // Records the time up to a checkpoint that is saved now.
  void save() {
    write_unfinished(run_, spent(), basis_);
    saved_ = Clock::now();
  }

 private:
  static double seconds_since(Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  }

  const PlannedRun& run_;
  const nlohmann::json& basis_;
  int jobs_;  // runs side by side
  TimeSpent before_;
  Clock::time_point start_ = Clock::now(), saved_ = start_;
  Index steps_ = 0;
  double step_seconds_ = 0;
};

// Run that is ready to be trained.
struct Begun {
  Learner learner;
  RunFolder folder;
};

// Run that resumes from the checkpoint of an earlier comparison; none if there is no checkpoint or
// the folder is damaged. Throws OlderCheckpointError if only the newest checkpoint is damaged.
std::optional<Begun> gone_on(const PlannedRun& run, const Corpus& corpus) {
  if (!is_there(run.folder)) return std::nullopt;
  FolderLock lock(run.folder);
  RunFolder::finish_replacement(run.folder);
  if (!find_checkpoint(run.folder)) return std::nullopt;
  try {
    auto [learner, state] = resumed_learner(run.options, run.folder, corpus.vocabulary);
    require_vocabulary(learner, corpus.vocabulary);
    return Begun{std::move(learner),
                 RunFolder::resume(std::move(lock), state, run.options.steps, corpus, run.command)};
  } catch (const OlderCheckpointError&) {
    throw;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

Begun begun(const PlannedRun& run, const RunTask& task, const nlohmann::json& basis,
            RunClock& clock) {
  const std::optional<TimeSpent> before = task.again ? std::nullopt : read_unfinished(run, basis);
  if (before) {
    if (auto there = gone_on(run, task.corpus)) {
      clock.go_on_from(*before);
      return std::move(*there);
    }
  }
  Learner learner = initial_learner(run.options, task.corpus.vocabulary);
  require_vocabulary(learner, task.corpus.vocabulary);
  Begun anew{std::move(learner), RunFolder::create(run.folder, run.options, task.corpus.sha256,
                                                   run.command, EarlierRun::replace)};
  clock.save();  // from here on it can resume
  return anew;
}

RunResult train(const PlannedRun& run, const RunTask& task, const StepObserver& observe) {
  const nlohmann::json on = basis(run, task.corpus);
  RunClock clock(run, on, task.workers.jobs);
  auto [learner, run_folder] = begun(run, task, on, clock);
  RunFolder& folder = run_folder;
  const auto watch = [&](const StepResult& step, std::optional<double> validation,
                         double training_seconds) {
    clock.step(training_seconds);
    observe(step, validation, training_seconds);
    if (!clock.checkpoint_is_due(step.step)) return;
    folder.want_checkpoint();
    clock.save();
  };
  TrainingOutcome outcome;
  try {
    outcome = train_to_end(run.options, learner, task.corpus, folder, {.observe = watch});
  } catch (const InterruptedError&) {
    clock.save();
    throw;
  }
  RunResult result;
  result.seed = run.options.seed;
  read_curve(run, result);
  result.validation_loss = outcome.validation.loss;
  result.answer_accuracy = outcome.validation.answer_accuracy;
  result.answers_by_distance = outcome.validation.answers_by_distance;
  result.loss_by_position = outcome.validation.loss_by_position;
  if (!task.corpus.tuning.tokens.empty()) {
    result.tuning_loss =
        evaluate(*learner.model, task.corpus.tuning.tokens,
                 {.marks = task.corpus.marks(task.corpus.tuning), .stop = interrupted})
            .loss;
  }
  const TimeSpent spent = clock.spent();
  result.train_tokens_per_second = tokens_per_second(run.options, spent.steps, spent.step_seconds);
  result.machine_seconds = spent.machine_seconds;
  result.version = version_text();
  result.machine = machine_text() + "; " + task.workers.text();
  write_run_result(run, result, on, task.workers.text());
  return result;
}

// Thrown by the observer to abandon a run that is not needed any more.
struct NotNeeded {};

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

std::vector<double> work_of(const std::vector<PlannedRun>& runs, Index vocabulary) {
  const auto product = [](auto... factors) { return (static_cast<double>(factors) * ...); };
  std::vector<double> work;
  const ResolvedModel* counted = nullptr;  // seeds of an attention share their plan
  Index parameters = 0;
  for (const PlannedRun& run : runs) {
    const TrainOptions& options = run.options;
    const ModelPlan& model = options.model;
    if (std::exchange(counted, &*model) != &*model)
      parameters = LanguageModel(model, vocabulary).parameters().element_count();
    work.push_back(product(options.steps, options.accumulate, options.batch, model->context) *
                   (product(parameters) + product(model->layers, model->context, model->dim)));
  }
  return work;
}

namespace {

// Trains one run of the queue. Returns false if there is none left.
bool train_next(const RunTask& task, JobQueue& queue) {
  const auto i = queue.next();
  if (!i) return false;
  const PlannedRun& run = task.runs[*i];
  RunOutcome outcome;
  try {
    outcome.result = train(run, task, [&](const StepResult& step, std::optional<double>, double) {
      if (!queue.step(*i, step)) throw NotNeeded();
    });
  } catch (const NotNeeded&) {
    return true;
  } catch (const InterruptedError&) {
    return false;
  } catch (const EvaluationStopped&) {
    return false;
  } catch (const std::exception& error) {
    outcome.failure = error.what();
    outcome.diverged = dynamic_cast<const NonFiniteError*>(&error) != nullptr;
    // The process that holds the lock of the folder says how the run ended.
    const bool of_another = dynamic_cast<const LockedError*>(&error) != nullptr;
    if (!task.elsewhere.empty() && !of_another)
      write_run_failure(run, outcome, basis(run, task.corpus));
  }
  queue.end(*i, std::move(outcome));
  return true;
}

void train_all(const RunTask& task, JobQueue& queue) {
  const int threads_before = threads();
  on_threads(task.workers.jobs, "lower `jobs`", [&] {
    set_threads(task.workers.threads);
    while (train_next(task, queue)) continue;
  });
  set_threads(threads_before);
}

// Outcomes of runs that ended before, from their folders. Runs to be trained again are forgotten
// first, so that a comparison that is stopped and continued takes none of their old results.
std::vector<RunOutcome> outcomes_before(const RunTask& task) {
  std::vector<RunOutcome> before(task.runs.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const bool other = !task.elsewhere.empty() && task.elsewhere[i];
    const nlohmann::json on = basis(task.runs[i], task.corpus);
    if (task.again && !other) forget_run(task.runs[i]);
    before[i].result = read_run_result(task.runs[i], on);
    before[i].reused = before[i].ended = before[i].result.has_value();
    if (other && !before[i].ended)
      before[i] = read_run_failure(task.runs[i], on).value_or(RunOutcome());
  }
  return before;
}

}  // namespace

std::vector<RunOutcome> run_all(const RunTask& task, RunWatcher& watcher) {
  if (task.ranks.rank() > 0) {
    RemoteQueue queue(task.ranks, task.runs.size());
    train_all(task, queue);
    return {};
  }
  std::vector<double> work;
  if (task.ranks.size() > 1) work = work_of(task.runs, task.corpus.vocabulary.size());
  LocalQueue queue(task.runs, task.needs, outcomes_before(task), task.elsewhere, std::move(work),
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
