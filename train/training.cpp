#include "train/training.h"

#include <chrono>
#include <limits>

#include "train/interrupt.h"
#include "train/show/statistics.h"

namespace headcount {

namespace {

Corpus load_longer_than(Index context, const std::string& data, const CorpusOptions& options) {
  Corpus corpus = load_corpus(data, options);
  require_longer(corpus, context);
  if (std::string note = continued_note(corpus, context); !note.empty())
    corpus.notes.push_back(std::move(note));
  return corpus;
}

// Training run in progress: the state of `train_to_end`.
struct Training {
  const TrainOptions& options;
  Learner& learner;
  const Corpus& corpus;
  TrainingLog& log;
  const TrainingWatch& watch;
  Ranks& ranks;
  TrainingOutcome outcome = {};

  bool ended(Index step) const { return step == options.steps || outcome.stopped; }

  TrainingOutcome run() {
    using Clock = std::chrono::steady_clock;
    const TrainingLog::Position from = shared_position();
    Trainer trainer(*learner.model, options, corpus.train.tokens, from.step,
                    corpus.marks(corpus.train), ranks, learner.optimizer.get());
    trainer.profile(watch.profile);
    trainer.trap_non_finite(watch.trap_non_finite);
    outcome.best = from.best;
    outcome.stopped = from.stopped(options);
    // Whether the run had learned is not saved; the same evaluation says so again.
    const bool may_have_learned =
        options.stops_when_learned() && from.step > 0 && options.evaluates_after(from.step);
    if (ended(from.step) || may_have_learned) {
      outcome.last = {.step = from.step, .loss = std::numeric_limits<double>::quiet_NaN()};
      evaluate_model();
      outcome.stopped = outcome.stopped || (outcome.learned_at && from.step < options.steps);
    }
    while (!ended(trainer.steps_done())) {
      const Clock::time_point start = Clock::now();
      const StepResult result = trainer.step();
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      outcome.training_seconds += seconds;
      outcome.tokens += result.tokens;
      outcome.step_milliseconds.push_back(1e3 * seconds);
      complete(result);
    }
    return outcome;
  }

  // Copies the position, weights and moments of rank 0 to all ranks; returns the position.
  TrainingLog::Position shared_position() {
    TrainingLog::Position position = log.position();
    broadcast(ranks, std::span(&position, 1));
    broadcast(ranks, learner.model->parameters().all_values());
    for (const Optimizer::Moment& moment : learner.optimizer->moments())
      broadcast(ranks, moment.numbers.all());
    return position;
  }

  void evaluate_model() {
    try {
      outcome.validation = evaluate(*learner.model, corpus.validation.tokens,
                                    {.marks = corpus.marks(corpus.validation), .ranks = &ranks});
      if (options.learned(outcome.validation)) outcome.learned_at = outcome.last.step;
    } catch (const NonFiniteError&) {
      const Index step = outcome.last.step;
      throw DivergedError("the validation loss became NaN or infinite", step, options, step);
    }
  }

  // Evaluation, log and checkpoint after a step, where they are due.
  void complete(const StepResult& result) {
    outcome.last = result;
    const Index step = result.step;
    std::optional<Evaluation> evaluation;
    std::optional<double> loss;
    bool best = false;
    if (options.evaluates_after(step)) {
      evaluate_model();
      evaluation = outcome.validation;
      loss = evaluation->loss;
      best = *loss < outcome.best.loss;
      if (best) outcome.best = {step, *loss};
      outcome.stopped =
          step < options.steps &&
          (outcome.learned_at || TrainingLog::Position{step, outcome.best}.stopped(options));
    }
    log.log(result, evaluation, outcome.stopped);
    watch.observe(result, loss, outcome.training_seconds);
    const int signal = interrupt_signal(ranks);
    const Index every = options.checkpoint_every;
    if (step == options.steps || (every > 0 && (best || step % every == 0)) || outcome.stopped ||
        signal != 0 || log.wants_checkpoint())
      log.save(learner, result, loss);
    if (signal != 0 && !ended(step))
      throw InterruptedError(
          signal, "stopped after step " + std::to_string(step) + "; a checkpoint is saved");
  }
};

}  // namespace

bool TrainingLog::Position::stopped(const TrainSettings& settings) const {
  if (settings.stop_after == 0) return false;
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

double TrainingOutcome::tokens_per_second() const {
  return tokens == 0 ? 0 : static_cast<double>(tokens) / training_seconds;
}

TrainingOutcome train_to_end(const TrainOptions& options, Learner& learner, const Corpus& corpus,
                             TrainingLog& log, const TrainingWatch& watch, Ranks& ranks) {
  try {
    return Training{options, learner, corpus, log, watch, ranks}.run();
  } catch (const DivergedError&) {
    log.diverged();
    throw;
  }
}

}  // namespace headcount
