#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/corpus.h"
#include "train/evaluation.h"
#include "train/options.h"
#include "train/trainer.h"

namespace headcount {

/// The corpus of a training run. Throws DataError as load_corpus does, and if a part of the text is
/// not longer than the context.
Corpus load_training_corpus(const TrainOptions& options);
/// The corpus of settings that are not resolved yet.
Corpus load_training_corpus(const Given& given);

/// Log of a training run: one line per step, and checkpoints. This base class stores nothing: ranks
/// that write no files use it. RunFolder (train/run/folder.h) writes files.
class TrainingLog {
 public:
  virtual ~TrainingLog() = default;

  /// Place of a run between two steps, where training begins or continues.
  struct Position {
    Index step = 0;  ///< steps done
    BestEvaluation best = {};

    /// Returns true if a run of `settings` has ended here by `stop-after`.
    bool stopped(const TrainSettings& settings) const;
  };
  virtual Position position() const { return {}; }

  /// Logs a step, with the evaluation after it if there was one, and whether the run ends there
  /// before all its steps.
  virtual void log(const StepResult&, const std::optional<Evaluation>&, bool /*stopped*/) {}
  /// Returns true if the step under way is to end with a checkpoint, even if none is due.
  virtual bool wants_checkpoint() const { return false; }
  /// Saves a checkpoint after a step, with the validation loss if it was evaluated.
  virtual void save(const Learner&, const StepResult&, std::optional<double> /*validation_loss*/) {}
  /// Called when the run ends because it diverged.
  virtual void diverged() {}
};

/// Called after each step, with the validation loss if the step ended with an evaluation, and the
/// seconds of all steps that this process has trained.
using StepObserver = std::function<void(const StepResult& result, std::optional<double> validation,
                                        double training_seconds)>;

/// How a training run is watched. Nothing here changes a result.
struct TrainingWatch {
  StepObserver observe;
  TrainingProfile* profile = nullptr;  ///< gets the time of the steps; null: no profile is taken
  bool trap_non_finite = false;        ///< see Trainer::trap_non_finite
};

/// Measurements of a training run. Times are of the steps that this process has trained, not of
/// those before the run was resumed.
struct TrainingOutcome {
  StepResult last;
  Evaluation validation;  ///< after the last step, of the whole validation part
  BestEvaluation best;    ///< of all starts
  bool stopped = false;   ///< by `stop-after`, or because it has learned, before all steps
  /// Step of the evaluation that showed that the run has learned (see TrainSettings::learned).
  std::optional<Index> learned_at;
  double training_seconds = 0;  ///< of whole steps: evaluations left out
  std::int64_t tokens = 0;      ///< read in these steps
  std::vector<double> step_milliseconds;

  double median_milliseconds() const;  ///< 0 without a step
  double tokens_per_second() const;    ///< 0 without a step
};

/// Trains `learner` to the end of `options`, or until `stop-after` ends the run or it has learned,
/// from the position that `log` has: logs every step, evaluates and saves when it is due. Throws
/// DivergedError, WriteError, and InterruptedError after a signal that was caught, once the step,
/// with its evaluation, is done and a checkpoint is saved. Among several `ranks`, rank 0 alone has
/// a log that keeps anything. All ranks begin with its position, weights and moments, and a signal
/// at any of them stops all.
TrainingOutcome train_to_end(const TrainOptions& options, Learner& learner, const Corpus& corpus,
                             TrainingLog& log, const TrainingWatch& watch, Ranks& ranks = alone());

}  // namespace headcount
