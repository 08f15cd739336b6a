#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/corpus.h"
#include "data/vocabulary.h"
#include "models/checkpoint/checkpoint.h"
#include "train/options.h"
#include "train/run/state.h"
#include "train/trainer.h"

namespace headcount {

/// A trained model and, if it comes from a run folder, the options of its training.
struct LoadedRun : Checkpoint {
  std::optional<TrainOptions> options;
};

/// The newest checkpoint is damaged, and an older one is whole; the message names both.
class OlderCheckpointError : public DataError {
 public:
  using DataError::DataError;
};

/// The options of the run in a folder, resolved. Throws DataError.
TrainOptions read_run_options(const std::string& folder);

/// `options` of the run in `folder` with paths that are valid in the current directory: relative
/// paths are looked up in the directory in which the run was started, then in the current one.
/// Throws DataError if the text is in neither; the message ends with `otherwise`.
TrainOptions found_from_here(TrainOptions options, const std::filesystem::path& folder,
                             const std::string& otherwise = "");

/// Throws DataError unless `corpus` has the texts, for training and for validation, of the run in
/// `folder`. The message ends with `otherwise`.
void require_own_text(const Corpus& corpus, const std::filesystem::path& folder,
                      const std::string& otherwise = "");

/// The newest checkpoint of a run folder, or `path` itself if it is a checkpoint folder. Throws
/// DataError: a run without one is told when its first comes.
std::filesystem::path require_checkpoint(const std::string& path);

/// Reads a run folder (its newest checkpoint or, if `best`, the one at the lowest validation loss)
/// or a checkpoint folder. Throws DataError, OlderCheckpointError.
LoadedRun load_run(const std::string& path, bool best = false,
                   NonFinite allowed = NonFinite::refused);

/// How a run uses the weights of an earlier one: a run that is resumed has the same model; one that
/// starts with them may have another `context`, `rope-theta` and windows, on which no shape of a
/// weight depends, learned positions apart.
enum class UseOfWeights { resumed, start };

/// Throws SettingError if the model settings `here` differ from `there`, the settings of the model
/// in `folder`. The message names every setting that differs.
void require_same_model(const std::filesystem::path& folder, const nlohmann::json& here,
                        const nlohmann::json& there, UseOfWeights use);

/// Sentence on the settings in which the run differs from the model in its `init`; empty if there
/// are none.
std::string init_note(const TrainOptions& options);

/// The learner that a run of `options` starts with: the model of the setting `init`, or random
/// weights for tokens of `vocabulary`. Throws DataError, and SettingError if `init` has another
/// model, or fewer learned positions than `context`.
Learner initial_learner(const TrainOptions& options, const Vocabulary& vocabulary);

/// Learner and training state from the newest checkpoint of the run in `folder`; without a
/// checkpoint, the initial learner and step 0. Throws DataError, OlderCheckpointError.
std::pair<Learner, TrainingState> resumed_learner(const TrainOptions& options,
                                                  const std::filesystem::path& folder,
                                                  const Vocabulary& vocabulary);

/// Throws DataError unless the tokens of `learner` stand for the characters of `vocabulary`.
void require_vocabulary(const Learner& learner, const Vocabulary& vocabulary);

}  // namespace headcount
