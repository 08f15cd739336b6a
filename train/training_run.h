#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "data/corpus.h"
#include "models/language_model.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace headcount {

/// What a training run measured.
struct TrainingOutcome {
  StepResult last;
  Evaluation validation;        ///< after the last step, of the whole validation part
  double training_seconds = 0;  ///< of whole steps: evaluations left out
  std::vector<double> step_milliseconds;

  double median_milliseconds() const;
};

/// Sees each step, with the validation loss where the step ended with an evaluation.
using StepObserver = std::function<void(const StepResult& result, std::optional<double> validation,
                                        double training_seconds)>;

/// The text of `options`. Throws DataError as load_corpus, and where a part of the text is not
/// longer than the context.
Corpus load_training_corpus(const TrainOptions& options);

/// Trains `model`, which has been initialised, to the end of `options`: logs every step in
/// `folder`, evaluates where it is due, saves the last weights. Throws DivergedError, WriteError.
TrainingOutcome train_to_end(const TrainOptions& options, LanguageModel& model,
                             const Corpus& corpus, RunFolder& folder, const StepObserver& observe);

/// Characters that a whole run trains on.
Index training_characters(const TrainOptions& options);

}  // namespace headcount
