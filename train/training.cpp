#include "train/training.h"

#include <chrono>
#include <limits>

#include "train/interrupt.h"
#include "train/statistics.h"

namespace headcount {

namespace {

Corpus load_longer_than(Index context, const std::string& data, const CorpusOptions& options) {
  Corpus corpus = load_corpus(data, options);
  require_longer(corpus, context);
  return corpus;
}

// Training run in progress: the state of `train_to_end`.
class Training {
 public:
  Training(const TrainOptions& options, Learner& learner, const Corpus& corpus, TrainingLog& log,
           const TrainingWatch& watch, Ranks& ranks)
      : options_(options),
        learner_(learner),
        corpus_(corpus),
        log_(log),
        watch_(watch),
        ranks_(ranks) {}

  TrainingOutcome run();

 private:
  TrainingLog::Position shared_position();
  bool ended(Index step) const { return step == options_.steps || outcome_.stopped; }
  void evaluate_model();
  void complete(const StepResult& result);

  const TrainOptions& options_;
  Learner& learner_;
  const Corpus& corpus_;
  TrainingLog& log_;
  const TrainingWatch& watch_;
  Ranks& ranks_;
  TrainingOutcome outcome_;
};

TrainingOutcome Training::run() {
  using Clock = std::chrono::steady_clock;
  const TrainingLog::Position from = shared_position();
  Trainer trainer(*learner_.model, options_, corpus_.train.tokens, from.step,
                  corpus_.marks(corpus_.train), ranks_, learner_.optimizer.get());
  trainer.profile(watch_.profile);
  trainer.trap_non_finite(watch_.trap_non_finite);
  outcome_.best = from.best;
  outcome_.stopped = from.stopped(options_);
  // Whether the run had learned is not saved; the same evaluation says so again.
  const bool may_have_learned =
      options_.stops_when_learned() && from.step > 0 && options_.evaluates_after(from.step);
  if (from.unevaluated && options_.evaluates_after(from.step)) {
    complete(*from.unevaluated);
  } else if (ended(from.step) || may_have_learned) {
    outcome_.last = {.step = from.step, .loss = std::numeric_limits<double>::quiet_NaN()};
    evaluate_model();
    outcome_.stopped = outcome_.stopped || (outcome_.learned_at && from.step < options_.steps);
  }
  while (!ended(trainer.steps_done())) {
    const Clock::time_point start = Clock::now();
    const StepResult result = trainer.step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    outcome_.training_seconds += seconds;
    outcome_.step_milliseconds.push_back(1e3 * seconds);
    complete(result);
  }
  return outcome_;
}

// Copies the position, weights and moments of rank 0 to all ranks; returns the position.
TrainingLog::Position Training::shared_position() {
  TrainingLog::Position position = log_.position();
  broadcast(ranks_, std::span(&position, 1));
  broadcast(ranks_, learner_.model->parameters().all_values());
  for (const Optimizer::Moment& moment : learner_.optimizer->moments())
    broadcast(ranks_, moment.numbers.all());
  return position;
}

[[noreturn]] void stop(int signal, const std::string& where) {
  throw InterruptedError(signal, "stopped " + where + "; a checkpoint is saved");
}

void Training::evaluate_model() {
  try {
    outcome_.validation = evaluate(
        *learner_.model, corpus_.validation.tokens,
        {.marks = corpus_.marks(corpus_.validation), .stop = interrupted, .ranks = &ranks_});
    if (options_.learned(outcome_.validation)) outcome_.learned_at = outcome_.last.step;
  } catch (const EvaluationStopped&) {
    stop(interrupt_signal(ranks_),
         "in the evaluation after step " + std::to_string(outcome_.last.step));
  } catch (const NonFiniteError&) {
    const Index step = outcome_.last.step;
    throw DivergedError("the validation loss became NaN or infinite", step, options_, step);
  }
}

// Evaluation, log and checkpoint after a step, where they are due.
void Training::complete(const StepResult& result) {
  outcome_.last = result;
  const Index step = result.step;
  std::optional<Evaluation> evaluation;
  std::optional<double> loss;
  bool best = false;
  if (options_.evaluates_after(step)) {
    try {
      evaluate_model();
    } catch (const InterruptedError&) {
      log_.log(result, evaluation, false);
      log_.save(learner_, result, loss);
      throw;
    }
    evaluation = outcome_.validation;
    loss = evaluation->loss;
    best = *loss < outcome_.best.loss;
    if (best) outcome_.best = {step, *loss};
    outcome_.stopped =
        step < options_.steps &&
        (outcome_.learned_at || TrainingLog::Position{step, {}, outcome_.best}.stopped(options_));
  }
  log_.log(result, evaluation, outcome_.stopped);
  watch_.observe(result, loss, outcome_.training_seconds);
  const int signal = interrupt_signal(ranks_);
  const Index every = options_.checkpoint_every;
  if (step == options_.steps || (every > 0 && (best || step % every == 0)) || outcome_.stopped ||
      signal != 0 || log_.wants_checkpoint())
    log_.save(learner_, result, loss);
  if (signal != 0 && !ended(step)) stop(signal, "after step " + std::to_string(step));
}

}  // namespace

bool TrainingLog::Position::stopped(const TrainSettings& settings) const {
  if (settings.stop_after == 0 || unevaluated) return false;
  return step / settings.eval_every - best.step / settings.eval_every >= settings.stop_after;
}

Corpus load_training_corpus(const TrainOptions& options) {
  return load_longer_than(options.model->context, options.data, options.corpus);
}

Corpus load_training_corpus(const Given& given) {
  return load_longer_than(read_model_settings(given).context, given.text("data"),
                          corpus_options(given));
}

double TrainingOutcome::median_milliseconds() const {
  return step_milliseconds.empty() ? 0 : median(step_milliseconds);
}

double tokens_per_second(const TrainOptions& options, Index steps, double seconds) {
  if (steps == 0) return 0;
  return static_cast<double>(steps * options.tokens_per_step()) / seconds;
}

TrainingOutcome train_to_end(const TrainOptions& options, Learner& learner, const Corpus& corpus,
                             TrainingLog& log, const TrainingWatch& watch, Ranks& ranks) {
  try {
    return Training(options, learner, corpus, log, watch, ranks).run();
  } catch (const DivergedError&) {
    log.diverged();
    throw;
  }
}

}  // namespace headcount
