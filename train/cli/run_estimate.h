#pragma once

#include <optional>
#include <string>

#include "data/corpus.h"
#include "train/options.h"
#include "train/trainer.h"

namespace headcount {

/// Estimate of what a training run takes: its sizes before it starts; time and memory once its
/// first steps were measured. The constructor's arguments must outlive it.
class RunEstimate {
 public:
  /// Estimate for a run that has done `steps_before` of its steps already.
  RunEstimate(const TrainOptions& options, const Learner& learner, const Corpus& corpus,
              Index steps_before)
      : options_(options), learner_(learner), corpus_(corpus), steps_before_(steps_before) {}

  /// Number of parameters of the whole model, their memory, and the length of the text.
  std::string sizes() const;
  /// Call after each step, with the seconds of all steps trained by this process. Returns two lines
  /// once, when enough steps were measured and some remain.
  std::optional<std::string> measured(const StepResult& result, double training_seconds);

 private:
  const TrainOptions& options_;
  const Learner& learner_;
  const Corpus& corpus_;
  Index steps_before_;
  double first_seconds_ = 0;  // of the first step
};

}  // namespace headcount
