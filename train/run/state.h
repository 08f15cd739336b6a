#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "autograd/parameters.h"
#include "train/show/fields.h"
#include "train/training.h"

namespace headcount {

/// A step in metrics.jsonl, with the evaluation after it if there was one.
struct LoggedStep {
  StepResult step;
  std::optional<double> validation_loss = {}, accuracy = {}, answer_accuracy = {};
  std::optional<bool> stopped = {};  ///< the run ends here before all its steps
  std::uint64_t end = 0;             ///< length of the file up to here, bytes

  static void fields(auto& io, auto& s) {
    io(Presence::required, "step", s.step.step, "loss", s.step.loss, "lr", s.step.learning_rate,
       "grad_norm", s.step.gradient_norm);
    io(Presence::known, "val_loss", s.validation_loss, "val_accuracy", s.accuracy,
       "val_answer_accuracy", s.answer_accuracy, "stopped", s.stopped);
  }
};
/// Steps up to `last` in the whole lines of metrics.jsonl of the run in `folder`; none without the
/// file. Throws DataError that names the file.
std::vector<LoggedStep> read_metrics(const std::filesystem::path& folder,
                                     Index last = std::numeric_limits<Index>::max());
/// The evaluation of `steps` with the lowest loss.
BestEvaluation best_of(std::span<const LoggedStep> steps);

/// The state of a training run in a checkpoint, besides the model: the number of steps
/// (trainer_state.json), what metrics.jsonl says up to there, and the optimizer's moments
/// (optimizer.safetensors). Random numbers are functions of seed and step, so a run continues from
/// here to the same bits.
struct TrainingState : TrainingLog::Position {
  LoggedStep logged = {};  ///< the last line of metrics.jsonl up to there
};

/// Writes trainer_state.json and optimizer.safetensors into `folder`. Throws WriteError, and
/// NonFiniteError if a moment is NaN or infinite.
void write_training_state(const std::filesystem::path& folder, Index step,
                          const ParameterStore& parameters, const Optimizer& optimizer);

/// Reads the steps done in trainer_state.json, and the moments in optimizer.safetensors into
/// `optimizer`. Throws DataError that names the file, also if a moment is NaN or infinite.
Index read_training_state(const std::filesystem::path& folder, const ParameterStore& parameters,
                          const Optimizer& optimizer);

}  // namespace headcount
