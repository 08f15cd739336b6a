#pragma once

#include <memory>
#include <span>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/checks/trap.h"
#include "autograd/tape.h"
#include "data/batches.h"
#include "models/checkpoint/contents.h"
#include "train/options.h"
#include "train/ranks.h"
#include "train/reducer.h"
#include "train/training_profile.h"

namespace headcount {

/// A number of the training became NaN or infinite. The message says which, at which step, and what
/// to change: the learning rate only if the weights have been updated before.
class DivergedError : public NonFiniteError {
 public:
  /// `what` became so, in words: "the loss became NaN". `updates` of the weights have been made.
  DivergedError(const std::string& what, Index step, const TrainOptions& options, Index updates);
};

/// A model in training: what a checkpoint has of it, and what its optimizer remembers.
struct Learner : Checkpoint {
  std::unique_ptr<Optimizer> optimizer;
};

/// Results of one step.
struct StepResult {
  Index step = 0;   ///< counts from 1
  double loss = 0;  ///< mean of the batch before the update, nats per character
  double learning_rate = 0;
  double gradient_norm = 0;  ///< before clipping
  Index tokens = 0;          ///< read, without padding
  std::size_t bytes = 0;     ///< held for steps, beside weights, their gradients and moments
};

/// Number of shards of a batch of `sequences`: parts that go through a model of width `dim` side by
/// side, one thread each. With 1 the batch stays whole, and the loops inside each op are parallel.
/// It depends on sizes alone: a power of two up to 8, such that a shard has at least 128 tokens,
/// and `dim`, so that the gradient of a matrix [dim, dim] takes no more memory than an activation
/// [tokens, dim]; 1 if the batch has fewer sequences than that.
Index shard_count(Index sequences, Index context, Index dim);
/// Number of shards in a run: the setting `shards`, or if it is 0, the number for its sizes.
Index shard_count(const TrainOptions& options);

/// Sequences of a shard that go through a model of width `dim` at a time, and add to the shard's
/// gradients: as many as keep its widest activations, [tokens, 4 dim], within the 2 MiB of a core's
/// second-level cache, at least one. It depends on sizes alone. A single shard goes as a whole, and
/// so do shards in f32, which took longer in pieces.
Index sequences_at_once(Index context, Index dim);

/// Trains a model on a text, step by step. A step is a pure function of the weights, the moments,
/// the seed and the step's number. Its shards have gradients of their own, which a Reducer sums in
/// order, so that any number of threads, and of ranks, gives the same bits.
class Trainer {
 public:
  /// Model, tokens and marks must outlive the trainer. `model` has done `steps_done` steps of this
  /// training, and `optimizer` remembers them; null: a new one. The model gets the precision of the
  /// options. All of `ranks` have the same model and do the same steps.
  Trainer(LanguageModel& model, const TrainOptions& options, std::span<const std::int32_t> tokens,
          Index steps_done = 0, const TextMarks& marks = {}, Ranks& ranks = alone(),
          Optimizer* optimizer = nullptr);

  /// One whole step: batches, forward, backward, clip, update. Throws DivergedError that names the
  /// step; the weights are then those before it.
  StepResult step();

  Index steps_done() const { return steps_done_; }
  const Optimizer& optimizer() const { return optimizer_; }

  /// Adds the times of steps to `profile` from now on; null: takes no profile.
  void profile(TrainingProfile* profile);
  /// Makes a step whose values or gradients become NaN or infinite name the first op where that
  /// happened. Call it before the first step.
  void trap_non_finite(bool on) { trap_ = on; }

 private:
  Index run_pass(Index pass);
  void make_workers(Index count);
  struct Worker {
    explicit Worker(ParameterStore* parameters) : tape(parameters) {}
    Tape tape;
    NonFiniteTrap trap;
  };
  double run_shard(Index shard, std::uint32_t draw, Worker& worker);
  double run_sequences(Index first, Index end, Tape& tape);

  LanguageModel& model_;
  std::unique_ptr<Optimizer> own_optimizer_;  // if none was given
  Optimizer& optimizer_;
  TrainOptions options_;
  std::span<const std::int32_t> tokens_;
  std::vector<Index> windows_;  // start positions, in a text of stories or documents
  Index length_;                // of a window, tokens
  TextMarks marks_;
  Reducer reducer_;
  std::vector<std::unique_ptr<Worker>> workers_;  // one per thread that runs shards
  Batch batch_;
  Index steps_done_;
  TrainingProfile* profile_ = nullptr;
  bool trap_ = false;
};

}  // namespace headcount
