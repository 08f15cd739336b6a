#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/corpus.h"
#include "models/language_model.h"
#include "train/evaluation.h"
#include "train/run/folder.h"
#include "train/trainer.h"

namespace headcount {

/// What a training run measured. Times are of the steps that were trained here, not of those before
/// it was resumed.
struct TrainingOutcome {
  StepResult last;
  Evaluation validation;        ///< after the last step, of the whole validation part
  double training_seconds = 0;  ///< of whole steps: evaluations left out
  std::vector<double> step_milliseconds;

  double median_milliseconds() const;  ///< 0 without a step
  double tokens_per_second(const TrainOptions& options) const;
};

/// Characters a second of so many steps that took so long.
double tokens_per_second(const TrainOptions& options, Index steps, double seconds);

/// Sees each step, with the validation loss where the step ended with an evaluation.
using StepObserver = std::function<void(const StepResult& result, std::optional<double> validation,
                                        double training_seconds)>;

/// The text of a training. Throws DataError as load_corpus, and where a part of the text is not
/// longer than the context.
Corpus load_training_corpus(const std::string& data, const CorpusOptions& options, Index context);
Corpus load_training_corpus(const TrainOptions& options);
/// The same before anything else is settled.
Corpus load_training_corpus(const Given& given);

/// Throws SettingError that names every setting of a model in which `here` is not what the model in
/// `folder` has, `there`.
void require_same_model(const std::filesystem::path& folder, const nlohmann::json& here,
                        const nlohmann::json& there);

/// What a run of `options` starts from: random weights, or those of `--init`, with which
/// `corpus` then shares the vocabulary. Throws DataError; SettingError where the flags want another
/// model.
Learner initial_learner(const TrainOptions& options, Corpus& corpus);
/// The same for a text that has the vocabulary of `--init` already; DataError if it has not.
Learner initial_learner(const TrainOptions& options, const Vocabulary& vocabulary);

/// What the newest checkpoint of the run in `folder` has, and the state there; without a
/// checkpoint, the initial model and step 0. Throws DataError, as
/// load_newest does.
std::pair<Learner, TrainingState> resumed_learner(const TrainOptions& options,
                                                  const std::filesystem::path& folder,
                                                  Corpus& corpus);

/// The same for a text that has the vocabulary of the run already; DataError if it has not.
std::pair<Learner, TrainingState> resumed_learner(const TrainOptions& options,
                                                  const std::filesystem::path& folder,
                                                  const Vocabulary& vocabulary);

/// Trains `learner`, which stands where `folder` does, to the end of `options`: logs every step,
/// evaluates and saves where it is due. Throws DivergedError, WriteError, and InterruptedError
/// after a signal that was caught, when the step has been saved; a signal stops an evaluation too,
/// which a resumed run then repeats first. `profile`, if given, learns where the time of the steps
/// goes. Among several `ranks`, rank 0 has the folder and the others none; they begin with its
/// weights and moments, and a signal at any of them stops all.
TrainingOutcome train_to_end(const TrainOptions& options, Learner& learner, const Corpus& corpus,
                             RunFolder* folder, const StepObserver& observe,
                             TrainingProfile* profile = nullptr, Ranks& ranks = alone());

}  // namespace headcount
