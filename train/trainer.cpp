#include "train/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

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

}  // namespace

DivergedError::DivergedError(const std::string& what, double value, Index step,
                             const TrainOptions& options, Index updates)
    : Error("the " + what + (std::isnan(value) ? " became NaN" : " became infinite") + " at step " +
            std::to_string(step) + "; " + remedy(options, updates)) {}

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
      marks_{marks.answers, windows_, marks.only_answers},
      ranks_(ranks),
      shards_(shard_count(options)),
      own_(part_of(shards_, ranks.rank(), ranks.size())),
      losses_(static_cast<std::size_t>(shards_ * options.accumulate)),
      steps_done_(steps_done) {
  for (Index shard = 1; shard < own_.size(); ++shard)
    more_gradients_.emplace_back(model.parameters());
}

void Trainer::profile(TrainingProfile* profile) {
  profile_ = profile;
  if (profile != nullptr) profile->shards = shards_;
}

StepResult Trainer::step() {
  const StepPart whole(profile_, &TrainingProfile::seconds);
  StepResult result;
  result.step = steps_done_ + 1;
  result.learning_rate = options_.schedule().at(steps_done_);
  result.loss = compute_gradients();
  ParameterStore& parameters = model_.parameters();
  const double mean = 1 / static_cast<double>(options_.accumulate);
  {
    const StepPart part(profile_, &TrainingProfile::norm_seconds);
    const bool summed = ranks_.size() > 1;
    result.gradient_norm =
        sum_gradients(parameters, summed ? std::span<Gradients>() : more_gradients_) * mean;
  }
  for (const auto& [what, value] :
       {std::pair{"loss", result.loss}, std::pair{"gradient norm", result.gradient_norm}}) {
    if (!std::isfinite(value)) throw DivergedError(what, value, result.step, options_, steps_done_);
  }
  const StepPart part(profile_, &TrainingProfile::update_seconds);
  optimizer_.update(parameters,
                    {result.learning_rate, options_.schedule().of_peak(steps_done_),
                     mean * clip_scale(result.gradient_norm, options_.gradient_clip), result.step});
  result.bytes = more_gradients_.size() * parameters.all_values().size_bytes();
  for (const std::unique_ptr<Tape>& tape : tapes_) result.bytes += tape->memory_capacity();
  ++steps_done_;
  if (profile_ != nullptr) ++profile_->steps;
  return result;
}

// Forward and backward of a whole step. Among several ranks the store then has the sums of all
// shards. Returns the mean loss.
double Trainer::compute_gradients() {
  model_.parameters().clear_gradients();
  for (Gradients& gradients : more_gradients_) gradients.clear();
  std::optional<GradientExchange> exchange;
  for (Index pass = 0; pass < options_.accumulate; ++pass) {
    if (pass == options_.accumulate - 1 && ranks_.size() > 1)
      exchange.emplace(ranks_, model_.parameters(), own_.size(), more_gradients_);
    accumulate_gradients(pass, exchange ? &*exchange : nullptr);
  }
  exchange.reset();
  const auto passes = static_cast<std::size_t>(options_.accumulate);
  ranks_.gather(std::as_writable_bytes(std::span(losses_)), passes * sizeof(double));
  double mean = 0;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    double loss = 0;
    for (std::size_t i = pass; i < losses_.size(); i += passes) loss += losses_[i];
    mean += loss / static_cast<double>(passes);
  }
  return mean;
}

// One batch, forward and backward of this rank's shards; `exchange`, if any, is told of gradients
// to which no pass will add.
void Trainer::accumulate_gradients(Index pass, GradientExchange* exchange) {
  const auto draw = static_cast<std::uint32_t>(steps_done_ * options_.accumulate + pass);
  {
    const StepPart part(profile_, &TrainingProfile::batch_seconds);
    sample_windows(tokens_, {options_.seed, random_stream("batches"), draw}, options_.batch,
                   options_.model->context, batch_, marks_);
  }
  const int side_by_side = profile_ == nullptr ? threads() : 1;  // ops are timed one at a time
  while (std::ssize(tapes_) < std::min<Index>(own_.size(), side_by_side)) {
    tapes_.push_back(std::make_unique<Tape>(&model_.parameters()));
    tapes_.back()->set_training(true, static_cast<Real>(options_.dropout));
  }
  for (const std::unique_ptr<Tape>& tape : tapes_) {
    tape->when_complete(nullptr);
    if (exchange != nullptr)
      tape->when_complete([exchange](ParameterId parameter) { exchange->complete(parameter); });
  }
  const auto run = [&](Index i, int thread) {
    const Index shard = own_.first + i;
    losses_[static_cast<std::size_t>(shard * options_.accumulate + pass)] =
        run_shard(shard, draw, *tapes_[static_cast<std::size_t>(thread)]);
  };
  parallel_tasks(own_.size(), side_by_side, run, shards_);
}

// Forward and backward of one shard of the batch; returns its part of the mean loss.
double Trainer::run_shard(Index shard, std::uint32_t draw, Tape& tape) {
  constexpr Index kStreams = 1 << 16;  // more than a pass has dropouts
  const Index first = shard * options_.batch / shards_;
  const Index count = (shard + 1) * options_.batch / shards_ - first;
  const auto tokens = [&](const std::vector<std::int32_t>& all) {
    return std::span(all).subspan(static_cast<std::size_t>(first * batch_.length),
                                  static_cast<std::size_t>(count * batch_.length));
  };
  tape.reset();
  tape.set_random(options_.seed, draw, static_cast<std::uint32_t>(shard * kStreams));
  tape.profile(profile_ == nullptr ? nullptr : &profile_->ops);
  tape.collect_gradients_in(
      shard == own_.first ? model_.parameters().gradients()
                          : more_gradients_[static_cast<std::size_t>(shard - own_.first - 1)]);
  const auto targets = tokens(batch_.targets);
  const Var loss = model_.loss(tape, tokens(batch_.inputs), targets, count);
  // Its part of the targets that count; some batches may have none.
  const double part = static_cast<double>(counted(targets)) /
                      static_cast<double>(std::max<Index>(1, counted(batch_.targets)));
  const auto weight = static_cast<Real>(part);
  tape.backward(loss, std::span(&weight, 1));
  return static_cast<double>(loss.item()) * part;
}

}  // namespace headcount
