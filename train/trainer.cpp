#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "autograd/parallel.h"
#include "models/decoder.h"
#include "train/formatted.h"

namespace headcount {

DivergedError::DivergedError(const std::string& what, double value, Index step)
    : Error("the " + what + " became " + (std::isnan(value) ? "NaN" : "infinite") + " at step " +
            std::to_string(step) + "; lower `lr`, lengthen `warmup` or set `grad-clip`") {}

std::string answers_line(const Evaluation& evaluation, std::optional<double> chance) {
  if (!evaluation.answer_accuracy) return "";
  std::string line =
      formatted("deciding characters right %.1f %%", 100 * *evaluation.answer_accuracy);
  if (chance) line += formatted(" (chance %.1f %%, ceiling 100 %%)", 100 * *chance);
  return line + "\n";
}

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
  return options.shards > 0 ? options.shards
                            : shard_count(options.batch, options.model.context, options.model.dim);
}

Trainer::Trainer(LanguageModel& model, const TrainOptions& options,
                 std::span<const std::int32_t> tokens, Index steps_done, const TextMarks& marks,
                 Ranks& ranks)
    : model_(model),
      options_(options),
      tokens_(tokens),
      marks_(marks),
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
    if (!std::isfinite(value)) throw DivergedError(what, value, result.step);
  }
  const StepPart part(profile_, &TrainingProfile::update_seconds);
  options_.optimizer.update(parameters, result.learning_rate,
                            mean * clip_scale(result.gradient_norm, options_.gradient_clip),
                            result.step);
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

namespace {

// How many targets the loss counts.
Index counted(std::span<const std::int32_t> targets) {
  return std::ssize(targets) - std::ranges::count(targets, kNoTarget);
}

}  // namespace

// One batch, forward and backward of this rank's shards; `exchange`, if any, is told of gradients
// to which no pass will add.
void Trainer::accumulate_gradients(Index pass, GradientExchange* exchange) {
  const auto draw = static_cast<std::uint32_t>(steps_done_ * options_.accumulate + pass);
  {
    const StepPart part(profile_, &TrainingProfile::batch_seconds);
    sample_windows(tokens_, {options_.seed, random_stream("batches"), draw}, options_.batch,
                   options_.model.context, batch_, marks_);
  }
  const int side_by_side = profile_ == nullptr ? threads() : 1;  // ops are timed one at a time
  while (std::ssize(tapes_) < std::min<Index>(own_.size(), side_by_side)) {
    tapes_.push_back(std::make_unique<Tape>(&model_.parameters()));
    tapes_.back()->set_training(true);
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

// Sequences [first, last) of the batch; returns their part of its mean loss.
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

namespace {

// What a part of a text adds to an evaluation.
struct EvaluatedPart {
  double loss = 0;  // sum over its characters
  Index characters = 0, right = 0;
  std::array<AnswersAt, 32> answers = {};  // by the logarithm of the distance
  double entropy_sum = 0;                  // of attention, over layers, if it is measured
  Index rows = 0;                          // with entropies
};

// Counts right predictions of a batch of windows that begin at `starts` of the text.
void count_right(std::span<const Real> logits, const Batch& batch, std::span<const Index> starts,
                 std::span<const std::int32_t> answers, EvaluatedPart& part) {
  const std::size_t width = logits.size() / batch.targets.size();
  const auto length = static_cast<std::size_t>(batch.length);
  for (std::size_t i = 0; i < batch.targets.size(); ++i) {
    if (batch.targets[i] == kNoTarget) continue;
    const auto row = logits.subspan(i * width, width);
    const bool hit = std::ranges::max_element(row) - row.begin() == batch.targets[i];
    part.right += hit;
    const std::size_t position = static_cast<std::size_t>(starts[i / length]) + i % length + 1;
    if (answers.empty() || answers[position] == 0) continue;
    const auto distance = static_cast<std::uint32_t>(answers[position]);
    AnswersAt& at = part.answers[static_cast<std::size_t>(std::bit_width(distance) - 1)];
    ++at.asked;
    at.right += hit;
  }
}

// Logits [sequences, length, vocabulary] of a batch on `tape`: from a forward pass, or through a
// cache.
Var batch_logits(Tape& tape, const LanguageModel& model, const Batch& batch,
                 std::optional<CacheType> type, std::span<AttentionStats> stats) {
  if (!type) return model.logits(tape, batch.inputs, batch.sequences, stats);
  Decoder decoder(model, {.sequences = batch.sequences, .cache_type = *type});
  return tape.constant({batch.sequences, batch.length, model.vocabulary()},
                       decoder.feed(batch.inputs));
}

// Windows [begin, end) of the text.
EvaluatedPart evaluate_windows(const LanguageModel& model, std::span<const std::int32_t> tokens,
                               std::span<const Index> windows, const EvaluationOptions& options,
                               Index begin, Index end, Tape& tape) {
  const Index context = model.config().context;
  EvaluatedPart part;
  std::vector<AttentionStats> attention(
      static_cast<std::size_t>(options.attention_stats ? model.config().layers : 0));
  Batch batch;
  for (Index w = begin; w < end; w += batch.sequences) {
    evaluation_window_batch(tokens, windows, w, end - w, context, batch, options.marks);
    tape.reset();
    const Var logits = batch_logits(tape, model, batch, options.cache_type, attention);
    const Index count = counted(batch.targets);
    part.loss += static_cast<double>(cross_entropy(logits, batch.targets).item()) *
                 static_cast<double>(count);
    part.characters += count;
    count_right(logits.value(), batch, windows.subspan(static_cast<std::size_t>(w)),
                options.marks.answers, part);
  }
  for (const AttentionStats& layer : attention) {
    part.entropy_sum += layer.entropy_sum;
    part.rows += layer.rows;
  }
  return part;
}

// The parts of this rank, of windows that begin at `starts`; `per_part` of them make a part.
void evaluate_own(const LanguageModel& model, std::span<const std::int32_t> tokens,
                  std::span<const Index> starts, const EvaluationOptions& options, Index per_part,
                  Part own, std::span<EvaluatedPart> parts) {
  constexpr Index kLongWindow = 1024;
  // Long windows come one by one: their ops are large enough to be shared out, and several at a
  // time would take as many times the memory.
  const bool one_by_one = model.config().context >= kLongWindow;
  std::vector<std::unique_ptr<Tape>> tapes;
  for (Index i = 0; i < (one_by_one ? 1 : std::min<Index>(own.size(), threads())); ++i)
    tapes.push_back(std::make_unique<Tape>(model.parameters()));
  const auto evaluate_part = [&](Index i, int thread) {
    if (options.stop != nullptr && options.stop()) throw EvaluationStopped();
    const Index part = own.first + i;
    parts[static_cast<std::size_t>(part)] =
        evaluate_windows(model, tokens, starts, options, part * per_part,
                         std::min(std::ssize(starts), (part + 1) * per_part),
                         *tapes[static_cast<std::size_t>(thread)]);
  };
  if (one_by_one) {
    for (Index i = 0; i < own.size(); ++i) evaluate_part(i, 0);
  } else {
    parallel_tasks(own.size(), threads(), evaluate_part, std::ssize(parts));
  }
}

void add_answers(std::span<const AnswersAt> by_logarithm, Evaluation& result) {
  Index asked = 0, right = 0;
  for (std::size_t i = 0; i < by_logarithm.size(); ++i) {
    const AnswersAt& at = by_logarithm[i];
    if (at.asked == 0) continue;
    result.answers_by_distance.push_back({Index{1} << i, at.asked, at.right});
    asked += at.asked;
    right += at.right;
  }
  if (asked > 0) result.answer_accuracy = static_cast<double>(right) / static_cast<double>(asked);
}

}  // namespace

Evaluation evaluate(const LanguageModel& model, std::span<const std::int32_t> tokens,
                    const EvaluationOptions& options) {
  constexpr Index kTokensPerPart = 64;
  const Index context = model.config().context;
  const std::vector<Index> starts =
      evaluation_windows(std::ssize(tokens), context, options.marks.starts);
  const Index per_part = std::max<Index>(1, kTokensPerPart / context);
  std::vector<EvaluatedPart> parts(
      static_cast<std::size_t>((std::ssize(starts) + per_part - 1) / per_part));
  Ranks& ranks = options.ranks != nullptr ? *options.ranks : alone();
  bool stopped = false;
  try {
    evaluate_own(model, tokens, starts, options, per_part,
                 part_of(std::ssize(parts), ranks.rank(), ranks.size()), parts);
  } catch (const EvaluationStopped&) {
    stopped = true;
  }
  if (first_flag(ranks, stopped)) throw EvaluationStopped();
  gather(ranks, std::span(parts));
  EvaluatedPart all;
  for (const EvaluatedPart& part : parts) {
    all.loss += part.loss;
    all.characters += part.characters;
    all.right += part.right;
    for (std::size_t i = 0; i < all.answers.size(); ++i) {
      all.answers[i].asked += part.answers[i].asked;
      all.answers[i].right += part.answers[i].right;
    }
    all.entropy_sum += part.entropy_sum;
    all.rows += part.rows;
  }
  const auto characters = static_cast<double>(std::max<Index>(1, all.characters));
  Evaluation result;
  result.characters = all.characters;
  result.loss = all.loss / characters;
  result.accuracy = static_cast<double>(all.right) / characters;
  if (all.rows > 0) result.attention_entropy = all.entropy_sum / static_cast<double>(all.rows);
  add_answers(all.answers, result);
  return result;
}

}  // namespace headcount
