#include "train/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/parallel.h"

namespace headcount {

namespace {

std::string remedy(const TrainOptions& options, Index updates) {
  const std::string epsilon =
      options.model->norm_epsilon > 0
          ? ""
          : "give `norm-epsilon` more than 0, without which the norm of zeros is NaN";
  if (updates > 0 && options.learning_rate > 0) {
    return (epsilon.empty() ? "" : epsilon + ", or ") +
           "lower `lr`, lengthen `warmup` or set `grad-clip`";
  }
  if (!epsilon.empty()) return epsilon;
  return "the weights are those that the run began with, so `lr` is not the cause: look at " +
         std::string(options.init.empty() ? "" : "the weights of `init` and at ") +
         "`score-scale` and other settings of the model";
}

// Throws DivergedError if `value`, the `name` of a step, is NaN or infinite.
void require_finite(const std::string& name, double value, Index step, const TrainOptions& options,
                    Index updates) {
  if (std::isfinite(value)) return;
  throw DivergedError("the " + name + (std::isnan(value) ? " became NaN" : " became infinite"),
                      step, options, updates);
}

}  // namespace

DivergedError::DivergedError(const std::string& what, Index step, const TrainOptions& options,
                             Index updates)
    : NonFiniteError("{} at step {}; {}", what, step, remedy(options, updates)) {}

Index shard_count(Index sequences, Index context, Index dim) {
  constexpr Index kMostShards = 8, kFewestTokens = 128;
  const Index fewest = std::max(kFewestTokens, dim);
  const Index enough = std::min(sequences, kMostShards * fewest);  // its product does not overflow
  const Index by_tokens = std::min(kMostShards, enough * context / fewest);
  // Few sequences but many tokens: each op is large enough to be shared out itself.
  if (sequences < by_tokens) return 1;
  return static_cast<Index>(
      std::bit_floor(static_cast<std::size_t>(std::max<Index>(1, by_tokens))));
}

Index shard_count(const TrainOptions& options) {
  return options.shards > 0
             ? options.shards
             : shard_count(options.batch, options.model->context, options.model->dim);
}

Index sequences_at_once(Index context, Index dim) {
  constexpr Index kNumbers = 1 << 17;
  return std::max<Index>(1, kNumbers / context / dim);  // their product may overflow
}

Trainer::Trainer(LanguageModel& model, const TrainOptions& options,
                 std::span<const std::int32_t> tokens, Index steps_done, const TextMarks& marks,
                 Ranks& ranks, Optimizer* optimizer)
    : model_(model),
      own_optimizer_(optimizer == nullptr ? options.optimizer.make(model.parameters()) : nullptr),
      optimizer_(optimizer == nullptr ? *own_optimizer_ : *optimizer),
      options_(options),
      tokens_(tokens),
      windows_(marks.starts.empty()
                   ? std::vector<Index>()
                   : evaluation_windows(std::ssize(tokens), options.model->context, marks.starts)),
      length_(marks.one_document ? longest_window(windows_, std::ssize(tokens))
                                 : options.model->context),
      marks_(marks),
      reducer_(ranks, model.parameters(), shard_count(options), options.accumulate),
      steps_done_(steps_done) {
  marks_.starts = windows_;
  model.parameters().set_precision(options.precision);
}

void Trainer::profile(TrainingProfile* profile) {
  profile_ = profile;
  if (profile != nullptr) profile->shards = reducer_.shards();
}

StepResult Trainer::step() {
  const StepPart whole(profile_, &TrainingProfile::seconds);
  StepResult result;
  result.step = steps_done_ + 1;
  result.learning_rate = options_.schedule().at(steps_done_);
  reducer_.begin_step();
  try {
    for (Index pass = 0; pass < options_.accumulate; ++pass) result.tokens += run_pass(pass);
  } catch (const NonFiniteError& error) {
    throw DivergedError(std::string(error.what()) + ",", result.step, options_, steps_done_);
  }
  const double mean = 1 / static_cast<double>(options_.accumulate);
  {
    const StepPart part(profile_, &TrainingProfile::norm_seconds);
    const Reducer::Sums sums = reducer_.finish_step();
    result.loss = sums.loss;
    result.gradient_norm = sums.gradient_norm * mean;
  }
  require_finite("loss", result.loss, result.step, options_, steps_done_);
  require_finite("gradient norm", result.gradient_norm, result.step, options_, steps_done_);
  const StepPart part(profile_, &TrainingProfile::update_seconds);
  optimizer_.update(model_.parameters(),
                    {result.learning_rate, options_.schedule().of_peak(steps_done_),
                     mean * clip_scale(result.gradient_norm, options_.gradient_clip), result.step});
  result.bytes = reducer_.bytes();
  if (options_.precision == Precision::bf16)
    result.bytes += sizeof(std::uint16_t) * model_.parameters().all_values().size();
  for (const auto& worker : workers_) result.bytes += worker->tape.memory_capacity();
  ++steps_done_;
  if (profile_ != nullptr) ++profile_->steps;
  return result;
}

// One batch: forward and backward of this rank's shards. Returns the number of tokens of the batch.
Index Trainer::run_pass(Index pass) {
  const auto draw = static_cast<std::uint32_t>(steps_done_ * options_.accumulate + pass);
  {
    const StepPart part(profile_, &TrainingProfile::batch_seconds);
    sample_windows(tokens_, {options_.seed, random_stream("batches"), draw}, options_.batch,
                   length_, batch_, marks_);
  }
  const ParameterStore::Rounded rounded(model_.parameters());
  const Part own = reducer_.own();
  const int side_by_side = profile_ == nullptr ? threads() : 1;  // ops are timed one at a time
  make_workers(std::min<Index>(own.size(), side_by_side));
  const auto run = [&](Index i, int thread) {
    const Index shard = own.first + i;
    reducer_.set_loss(pass, shard,
                      run_shard(shard, draw, *workers_[static_cast<std::size_t>(thread)]));
  };
  parallel_tasks(own.size(), side_by_side, run, reducer_.shards());
  return batch_.tokens;
}

void Trainer::make_workers(Index count) {
  while (std::ssize(workers_) < count) {
    workers_.push_back(std::make_unique<Worker>(&model_.parameters()));
    workers_.back()->tape.set_training(true, static_cast<Real>(options_.dropout));
  }
}

// Forward and backward of one shard of the batch, some sequences at a time; returns its part of the
// mean cross-entropy.
double Trainer::run_shard(Index shard, std::uint32_t draw, Worker& worker) {
  constexpr Index kStreams = 1 << 16;  // more than a shard has dropout ops
  const Index shards = reducer_.shards();
  const Index first = shard * options_.batch / shards, end = (shard + 1) * options_.batch / shards;
  const bool whole = shards == 1 || options_.precision == Precision::f32;
  const Index most =
      whole ? options_.batch : sequences_at_once(options_.model->context, options_.model->dim);
  const Index pieces = (end - first + most - 1) / most;
  std::vector<TapeWatcher*> watchers;
  if (profile_ != nullptr) watchers.push_back(&profile_->ops);
  if (trap_) watchers.push_back(&worker.trap);
  worker.tape.watch(std::move(watchers));
  worker.tape.collect_gradients_in(reducer_.gradients(shard));
  double loss = 0;
  RandomKey random = {options_.seed, static_cast<std::uint32_t>(shard * kStreams), draw};
  for (Index piece = 0; piece < pieces; ++piece) {
    worker.tape.reset();
    worker.tape.set_random(random.seed, random.step, random.stream);
    loss += run_sequences(first + piece * (end - first) / pieces,
                          first + (piece + 1) * (end - first) / pieces, worker.tape);
    random = worker.tape.next_random_key();
  }
  return loss;
}

double Trainer::run_sequences(Index first, Index end, Tape& tape) {
  const Index count = end - first;
  const auto tokens = [&](const std::vector<std::int32_t>& all) {
    return std::span(all).subspan(static_cast<std::size_t>(first * batch_.length),
                                  static_cast<std::size_t>(count * batch_.length));
  };
  const auto targets = tokens(batch_.targets);
  const auto [cross_entropy, of_layers] = model_.loss(tape, tokens(batch_.inputs), targets, count);
  // Share of the batch's targets that lie in these sequences. If only answers count, a batch may
  // have no targets.
  const double part = static_cast<double>(counted(targets)) /
                      static_cast<double>(std::max<Index>(1, counted(batch_.targets)));
  const auto weight = static_cast<Real>(part);
  if (of_layers) {  // means over all tokens, with or without targets
    const auto of_tokens = static_cast<Real>(count) / static_cast<Real>(options_.batch);
    tape.backward(add(scale(cross_entropy, weight), scale(*of_layers, of_tokens)));
  } else {
    tape.backward(cross_entropy, std::span(&weight, 1));
  }
  return static_cast<double>(cross_entropy.item()) * part;
}

}  // namespace headcount
