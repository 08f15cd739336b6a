#pragma once

#include <memory>
#include <span>
#include <vector>

#include "autograd/error.h"
#include "autograd/tape.h"
#include "data/batches.h"
#include "models/language_model.h"
#include "train/gradient_exchange.h"
#include "train/options.h"
#include "train/ranks.h"
#include "train/training_profile.h"

namespace headcount {

/// A number of the training became NaN or infinite; the message names it, the step and remedies.
class DivergedError : public Error {
 public:
  DivergedError(const std::string& what, double value, Index step);
};

/// What one step did.
struct StepResult {
  Index step = 0;   ///< counts from 1
  double loss = 0;  ///< mean of the batch before the update, nats per character
  double learning_rate = 0;
  double gradient_norm = 0;  ///< before clipping
};

/// Of the characters that decide, those whose settling character stands `from` to 2 `from` - 1
/// characters back.
struct AnswersAt {
  Index from = 0;  ///< a power of two
  Index asked = 0, right = 0;

  bool operator==(const AnswersAt&) const = default;
};

/// Losses over a text, each target counted once.
struct Evaluation {
  double loss = 0;       ///< nats per character that counts
  double accuracy = 0;   ///< share of these whose likeliest prediction is right
  Index characters = 0;  ///< how many count
  std::optional<double>
      attention_entropy;  ///< nats, mean over rows, heads and layers; if asked for
  /// The same over the characters that decide, where the corpus marks them.
  std::optional<double> answer_accuracy;
  std::vector<AnswersAt> answers_by_distance;  ///< from near to far, those with any
};

/// "deciding characters right 97.1 % (chance 25.0 %, ceiling 100 %)" and a newline; empty where the
/// corpus marks none. `chance` is Corpus::answer_chance.
std::string answers_line(const Evaluation& evaluation, std::optional<double> chance);

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
  /// `steps_done` steps of the same training, moments included. The shards are shared out over
  /// `ranks`, which all have the same model and do the same steps.
  Trainer(LanguageModel& model, const TrainOptions& options, std::span<const std::int32_t> tokens,
          Index steps_done = 0, const TextMarks& marks = {}, Ranks& ranks = alone());

  /// One whole step: batches, forward, backward, clip, update. Throws DivergedError that names the
  /// step; the weights are then those before it.
  StepResult step();

  Index steps_done() const { return steps_done_; }

  /// Where the time of steps is added from now on; null: nowhere.
  void profile(TrainingProfile* profile);

 private:
  void accumulate_gradients(Index pass, GradientExchange* exchange);
  double run_shard(Index shard, std::uint32_t draw, Tape& tape);
  double compute_gradients();

  LanguageModel& model_;
  TrainOptions options_;
  std::span<const std::int32_t> tokens_;
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

/// An evaluation was asked to stop before its end.
class EvaluationStopped : public Error {
 public:
  EvaluationStopped() : Error("the evaluation was stopped") {}
};

/// How a text is evaluated.
struct EvaluationOptions {
  TextMarks marks = {};
  /// Reads keys and values from a cache of this type instead of as they were computed.
  std::optional<CacheType> cache_type = std::nullopt;
  /// Asked before each batch of some hundred characters, on any thread: true stops.
  bool (*stop)() = nullptr;
  bool attention_stats = false;  ///< measure the entropy of attention; not through a cache
  Ranks* ranks = nullptr;        ///< who shares the windows; null: this process has all
};

/// The whole of `tokens` in order, in windows of the model's context that begin anew at each of
/// the marks' starts; without starts they do not overlap. Throws EvaluationStopped, at all ranks
/// when one of them was stopped.
Evaluation evaluate(const LanguageModel& model, std::span<const std::int32_t> tokens,
                    const EvaluationOptions& options = {});

}  // namespace headcount
