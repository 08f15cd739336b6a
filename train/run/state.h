#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "autograd/parameters.h"
#include "train/trainer.h"

namespace headcount {

/// What a checkpoint holds besides the model, so that training goes on from it bit for bit: the
/// optimizer's moments (optimizer.safetensors) and these numbers (trainer_state.json). Random
/// numbers are functions of seed and step, so there is no more to keep.
struct TrainingState {
  Index step = 0;                         ///< steps done
  std::uint64_t metrics_bytes = 0;        ///< length of metrics.jsonl after that step
  std::optional<double> validation_loss;  ///< where the step ended with an evaluation
  // The checkpoint with the least validation loss so far.
  std::optional<Index> best_step;
  std::optional<double> best_loss;
  /// The step itself, where a signal stopped its evaluation: it has no line in metrics.jsonl yet.
  std::optional<StepResult> unevaluated;
};

/// One line of metrics.jsonl, without what an evaluation adds.
nlohmann::ordered_json to_json(const StepResult& result);

/// Writes both files into `folder`. Throws WriteError.
void write_training_state(const std::filesystem::path& folder, const TrainingState& state,
                          const ParameterStore& parameters, const Optimizer& optimizer);

/// Reads both files, the moments into `optimizer`. Throws DataError that names the file.
TrainingState read_training_state(const std::filesystem::path& folder,
                                  const ParameterStore& parameters, const Optimizer& optimizer);

}  // namespace headcount
