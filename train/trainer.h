#pragma once

#include <memory>
#include <span>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/tape.h"
#include "data/batches.h"
#include "models/language_model.h"
#include "train/gradient_exchange.h"
#include "train/options.h"
#include "train/ranks.h"
#include "train/training_profile.h"

namespace headcount {

/// A number of the training became NaN or infinite; the message names it, the step and remedies:
/// another learning rate only where an update came before it.
class DivergedError : public Error {
 public:
  /// `updates` of the weights have been made.
  DivergedError(const std::string& what, double value, Index step, const TrainOptions& options,
                Index updates);
};

/// A model that is trained, and what its optimizer remembers.
struct Learner {
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Optimizer> optimizer;
};

/// What one step did.
struct StepResult {
  Index step = 0;   ///< counts from 1
  double loss = 0;  ///< mean of the batch before the update, nats per character
  double learning_rate = 0;
  double gradient_norm = 0;  ///< before clipping
  std::size_t bytes = 0;     ///< held for steps, beside weights, their gradients and moments
};

/// Shards of a batch of `sequences` that go through a model of width `dim` side by side, one thread
/// each; 1: the batch stays whole and the loops inside each op are parallel. It depends on sizes
/// alone: a power of two up to 8, such that a shard has at least 128 tokens, and `dim`, so that the
/// gradient of a matrix [dim, dim] takes no more memory than an activation [tokens, dim].
Index shard_count(Index sequences, Index context, Index dim);
/// Those of a run: as `shards` says, or by sizes.
Index shard_count(const TrainOptions& options);

/// Trains a model on a text, step by step. A step is a pure function of the weights, the moments,
/// the seed and the step's number. Its shards have gradients of their own, which are summed in
/// order, so that any number of threads, and of ranks, gives the same bits.
class Trainer {
 public:
  /// `options` is resolved; model, tokens and marks must outlive the trainer. `model` has seen
  /// `steps_done` steps of the same training, and `optimizer` remembers them; null: a new one. The
  /// shards are shared out over `ranks`, which all have the same model and do the same steps.
  Trainer(LanguageModel& model, const TrainOptions& options, std::span<const std::int32_t> tokens,
          Index steps_done = 0, const TextMarks& marks = {}, Ranks& ranks = alone(),
          Optimizer* optimizer = nullptr);

  /// One whole step: batches, forward, backward, clip, update. Throws DivergedError that names the
  /// step; the weights are then those before it.
  StepResult step();

  Index steps_done() const { return steps_done_; }
  const Optimizer& optimizer() const { return optimizer_; }

  /// Where the time of steps is added from now on; null: nowhere.
  void profile(TrainingProfile* profile);

 private:
  void accumulate_gradients(Index pass, GradientExchange* exchange);
  double run_shard(Index shard, std::uint32_t draw, Tape& tape);
  double compute_gradients();

  LanguageModel& model_;
  std::unique_ptr<Optimizer> own_optimizer_;  // if none was given
  Optimizer& optimizer_;
  TrainOptions options_;
  std::span<const std::int32_t> tokens_;
  std::vector<Index> windows_;  // where they begin, in a text of stories
  TextMarks marks_;
  Ranks& ranks_;
  Index shards_;
  Part own_;                                  // of the shards, this rank's
  std::vector<std::unique_ptr<Tape>> tapes_;  // one per thread that runs shards
  std::vector<Gradients> more_gradients_;     // of own shards after the first, which uses the store
  std::vector<double> losses_;                // by shard and pass
  Batch batch_;
  Index steps_done_;
  TrainingProfile* profile_ = nullptr;
};

}  // namespace headcount
