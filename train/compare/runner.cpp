#include "train/compare/runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "models/checkpoint/checkpoint.h"
#include "train/compare/result_files.h"
#include "train/interrupt.h"
#include "train/run/folder.h"
#include "train/run/loaded.h"
#include "train/run/provenance.h"
#include "train/run/state.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr Index kCurvePoints = 100;

// Mean training losses over equal stretches of a run, and its evaluations, over all its starts.
void read_curve(const RunPlan& run, RunResult& result) {
  const Index steps = run.options.steps, stretch = std::max<Index>(1, steps / kCurvePoints);
  double sum = 0;
  Index count = 0;
  for (const LoggedStep& at : read_metrics(run.folder)) {
    const Index step = at.step.step;
    sum += at.step.loss;
    ++count;
    if (at.validation_loss)
      result.evaluations.push_back({step, *at.validation_loss, at.answer_accuracy});
    if (step % stretch != 0 && step != steps) continue;
    result.curve_steps.push_back(step);
    result.curve_losses.push_back(sum / static_cast<double>(count));
    sum = 0;
    count = 0;
  }
}

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Time that a run takes, over all its starts.
struct RunClock {
  const RunPlan& run;
  const Corpus& corpus;
  int jobs;           // runs side by side
  double before = 0;  // machine seconds of earlier starts
  Clock::time_point start = Clock::now(), saved = start;

  double machine_seconds() const { return before + seconds_since(start) / jobs; }
  // Returns true if a checkpoint is due after this step: by number, or after five minutes.
  bool checkpoint_is_due(Index step) const {
    constexpr double kSeconds = 300;
    const Index every = run.options.checkpoint_every;
    return every > 0 ? step % every == 0 : seconds_since(saved) >= kSeconds;
  }
  // Records the time up to a checkpoint that is saved now.
  void save() {
    write_unfinished(run, machine_seconds(), corpus);
    saved = Clock::now();
  }
};

// Run that is ready to be trained.
struct ReadyRun {
  Learner learner;
  RunFolder folder;
};

// Run that resumes from the checkpoint of an earlier comparison; none if there is no checkpoint or
// the folder is damaged. Throws OlderCheckpointError if only the newest checkpoint is damaged.
std::optional<ReadyRun> resume_run(const RunPlan& run, const Corpus& corpus,
                                   const FolderLock& lock) {
  if (!find_checkpoint(run.folder)) return std::nullopt;
  try {
    auto [learner, state] = resumed_learner(run.options, run.folder, corpus.vocabulary);
    require_vocabulary(learner, corpus.vocabulary);
    return ReadyRun{std::move(learner), RunFolder::resume(lock, state, read_run_options(run.folder),
                                                          corpus, run.command)};
  } catch (const OlderCheckpointError&) {
    throw;
  } catch (const DataError&) {
    return std::nullopt;
  }
}

ReadyRun begin_run(const RunPlan& run, const Corpus& corpus, const FolderLock& lock,
                   RunClock& clock) {
  if (const auto before = read_unfinished(run, corpus)) {
    if (auto there = resume_run(run, corpus, lock)) {
      clock.before = *before;
      return std::move(*there);
    }
  }
  Learner learner = initial_learner(run.options, corpus.vocabulary);
  require_vocabulary(learner, corpus.vocabulary);
  make_room(lock, EarlierRun::replace);
  ReadyRun anew{std::move(learner),
                RunFolder::create(lock, run.options, corpus.sha256, run.command)};
  clock.save();  // from here on it can resume
  return anew;
}

}  // namespace

RunResult train_run(const RunPlan& run, const Corpus& corpus, const Workers& workers,
                    const FolderLock& lock, const StepObserver& observe) {
  RunClock clock{run, corpus, workers.jobs};
  auto [learner, run_folder] = begin_run(run, corpus, lock, clock);
  RunFolder& folder = run_folder;
  const auto watch = [&](const StepResult& step, std::optional<double> validation,
                         double training_seconds) {
    observe(step, validation, training_seconds);
    if (!clock.checkpoint_is_due(step.step)) return;
    folder.want_checkpoint();
    clock.save();
  };
  TrainingOutcome outcome;
  try {
    outcome = train_to_end(run.options, learner, corpus, folder, {.observe = watch});
  } catch (const InterruptedError&) {
    clock.save();
    throw;
  }
  RunResult result;
  result.seed = run.options.seed;
  read_curve(run, result);
  result.learned_at = outcome.learned_at;
  result.validation_loss = outcome.validation.loss;
  static_cast<EvaluationDetails&>(result) = outcome.validation;
  if (!corpus.tuning.tokens.empty()) {
    result.tuning_loss =
        evaluate(*learner.model, corpus.tuning.tokens, {.marks = corpus.marks(corpus.tuning)}).loss;
  }
  result.train_tokens_per_second = outcome.tokens_per_second();
  result.machine_seconds = clock.machine_seconds();
  result.version = version_text();
  result.machine = machine_text() + "; " + workers.text();
  write_run_result(run, result);
  return result;
}

Workers Workers::share(int threads, Index jobs, std::size_t runs) {
  const int most = std::max(1, static_cast<int>(runs));
  Workers workers;
  workers.jobs = std::clamp<int>(jobs > 0 ? static_cast<int>(jobs) : threads, 1, most);
  workers.threads = std::max(1, threads / workers.jobs);
  return workers;
}

std::string Workers::text() const {
  return "runs side by side: " + std::to_string(jobs) +
         ", threads of each: " + std::to_string(threads);
}

}  // namespace headcount
