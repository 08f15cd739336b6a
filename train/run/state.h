#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "autograd/parameters.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace headcount {

/// The state of a training run in a checkpoint, besides the model: these numbers
/// (trainer_state.json) and the optimizer's moments (optimizer.safetensors). Random numbers are
/// functions of seed and step, so a run continues from here to the same bits.
struct TrainingState {
  Index step = 0;                         ///< steps done
  std::uint64_t metrics_bytes = 0;        ///< length of metrics.jsonl after that step
  std::optional<double> validation_loss;  ///< if the step ended with an evaluation; not read back
  BestEvaluation best;                    ///< of those that were saved with a checkpoint
  /// The step, if a signal stopped the evaluation after it: it has no line in metrics.jsonl yet.
  std::optional<StepResult> unevaluated;
};

/// A line of metrics.jsonl, without the fields of an evaluation.
nlohmann::ordered_json to_json(const StepResult& result);
/// A step from its line. Throws nlohmann::json::exception.
StepResult step_from(const nlohmann::json& line);

/// Writes trainer_state.json and optimizer.safetensors into `folder`. Throws WriteError, and
/// NonFiniteError if a moment is NaN or infinite.
void write_training_state(const std::filesystem::path& folder, const TrainingState& state,
                          const ParameterStore& parameters, const Optimizer& optimizer);

/// Step of the checkpoint with the lowest validation loss, as the one in `folder` records it; none
/// if no evaluation was saved before. Throws DataError.
std::optional<Index> best_step(const std::filesystem::path& folder);

/// Reads trainer_state.json, and the moments in optimizer.safetensors into `optimizer`. Throws
/// DataError that names the file, also if a moment is NaN or infinite.
TrainingState read_training_state(const std::filesystem::path& folder,
                                  const ParameterStore& parameters, const Optimizer& optimizer);

}  // namespace headcount
