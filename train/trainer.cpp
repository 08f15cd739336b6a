#include "train/trainer.h"

#include <algorithm>
#include <cmath>

#include "models/decoder.h"

namespace headcount {

DivergedError::DivergedError(const std::string& what, double value, Index step)
    : Error("the " + what + " became " + (std::isnan(value) ? "NaN" : "infinite") + " at step " +
            std::to_string(step) + "; lower --lr, lengthen --warmup or set --grad-clip") {}

Trainer::Trainer(LanguageModel& model, const TrainOptions& options,
                 std::span<const std::int32_t> tokens, Index steps_done)
    : model_(model),
      options_(options),
      tokens_(tokens),
      tape_(&model.parameters()),
      steps_done_(steps_done) {
  tape_.set_training(true);
}

void Trainer::profile(TrainingProfile* profile) {
  profile_ = profile;
  tape_.profile(profile == nullptr ? nullptr : &profile->ops);
}

StepResult Trainer::step() {
  const StepPart whole(profile_, &TrainingProfile::seconds);
  StepResult result;
  result.step = steps_done_ + 1;
  result.learning_rate = options_.schedule().at(steps_done_);
  ParameterStore& parameters = model_.parameters();
  parameters.clear_gradients();
  for (Index pass = 0; pass < options_.accumulate; ++pass) {
    const auto draw = static_cast<std::uint32_t>(steps_done_ * options_.accumulate + pass);
    tape_.reset();
    tape_.set_random(options_.seed, draw);
    {
      const StepPart part(profile_, &TrainingProfile::batch_seconds);
      sample_windows(tokens_, {options_.seed, random_stream("batches"), draw}, options_.batch,
                     options_.model.context, batch_);
    }
    const Var loss = model_.loss(tape_, batch_.inputs, batch_.targets, batch_.sequences);
    tape_.backward(loss);
    result.loss += static_cast<double>(loss.item()) / static_cast<double>(options_.accumulate);
  }
  const double mean = 1 / static_cast<double>(options_.accumulate);
  {
    const StepPart part(profile_, &TrainingProfile::norm_seconds);
    result.gradient_norm = gradient_norm(parameters) * mean;
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

namespace {

// Counts of right predictions of a batch whose first target is at `position` of the text.
void count_right(std::span<const Real> logits, const Batch& batch, Index position,
                 std::span<const std::uint8_t> answers, Index& right, Index& right_answers,
                 Index& all_answers) {
  const std::size_t width = logits.size() / batch.targets.size();
  for (std::size_t i = 0; i < batch.targets.size(); ++i) {
    const auto row = logits.subspan(i * width, width);
    const bool hit = std::ranges::max_element(row) - row.begin() == batch.targets[i];
    right += hit;
    if (answers.empty() || answers[static_cast<std::size_t>(position) + i] == 0) continue;
    ++all_answers;
    right_answers += hit;
  }
}

// Logits [sequences, length, vocabulary] of a batch on `tape`: from a forward pass, or through a
// cache.
Var batch_logits(Tape& tape, const LanguageModel& model, const Batch& batch,
                 std::optional<CacheType> type) {
  if (!type) return model.logits(tape, batch.inputs, batch.sequences);
  Decoder decoder(model, {batch.sequences, *type});
  return tape.constant({batch.sequences, batch.length, model.vocabulary()},
                       decoder.feed(batch.inputs));
}

}  // namespace

Evaluation evaluate(const LanguageModel& model, std::span<const std::int32_t> tokens,
                    const EvaluationOptions& options) {
  constexpr Index kTokensPerBatch = 256;
  Tape tape(model.parameters());
  AttentionEntropy entropy;
  tape.measure_attention_entropy(&entropy);
  const Index context = model.config().context;
  const Index windows = evaluation_windows(static_cast<Index>(tokens.size()), context);
  Evaluation result;
  Batch batch;
  double total = 0;
  Index right = 0, right_answers = 0, all_answers = 0;
  for (Index w = 0; w < windows; w += batch.sequences) {
    evaluation_window_batch(tokens, w, std::max<Index>(1, kTokensPerBatch / context), context,
                            batch);
    tape.reset();
    const Var logits = batch_logits(tape, model, batch, options.cache_type);
    const auto count = static_cast<Index>(batch.targets.size());
    total += static_cast<double>(cross_entropy(logits, batch.targets).item()) *
             static_cast<double>(count);
    count_right(logits.value(), batch, w * context + 1, options.answers, right, right_answers,
                all_answers);
    result.characters += count;
  }
  const auto characters = static_cast<double>(result.characters);
  result.loss = total / characters;
  if (entropy.rows > 0) result.attention_entropy = entropy.sum / static_cast<double>(entropy.rows);
  result.accuracy = static_cast<double>(right) / characters;
  if (all_answers > 0) {
    result.answer_accuracy = static_cast<double>(right_answers) / static_cast<double>(all_answers);
  }
  return result;
}

}  // namespace headcount
