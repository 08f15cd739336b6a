#include "train/training_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "models/checkpoint.h"

namespace headcount {

double TrainingOutcome::median_milliseconds() const {
  std::vector<double> sorted = step_milliseconds;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

Corpus load_training_corpus(const TrainOptions& options) {
  Corpus corpus = load_corpus(options.data, options.corpus());
  const Index context = options.model.context;
  for (const auto& [part, tokens] : {std::pair{"training", std::ssize(corpus.train)},
                                     std::pair{"validation", std::ssize(corpus.validation)}}) {
    if (tokens > context) continue;
    throw DataError("--context " + std::to_string(context) + " is longer than the " + part +
                    " part of " + corpus.name + ", " + std::to_string(tokens) +
                    " characters; lower it or give more text");
  }
  return corpus;
}

TrainingOutcome train_to_end(const TrainOptions& options, LanguageModel& model,
                             const Corpus& corpus, RunFolder& folder, const StepObserver& observe) {
  using Clock = std::chrono::steady_clock;
  Trainer trainer(model, options, corpus.train);
  TrainingOutcome outcome;
  while (trainer.steps_done() < options.steps) {
    const Clock::time_point start = Clock::now();
    outcome.last = trainer.step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    outcome.training_seconds += seconds;
    outcome.step_milliseconds.push_back(1e3 * seconds);
    const Index step = outcome.last.step;
    const bool due =
        step == options.steps || (options.eval_every > 0 && step % options.eval_every == 0);
    if (due) {
      outcome.validation =
          evaluate(model, corpus.validation, {.answers = corpus.validation_answers});
      // The weights of the last step meet no other loss.
      if (!std::isfinite(outcome.validation.loss))
        throw DivergedError("validation loss", outcome.validation.loss, step);
    }
    folder.log(outcome.last, due ? std::optional(outcome.validation) : std::nullopt);
    observe(outcome.last, due ? std::optional(outcome.validation.loss) : std::nullopt,
            outcome.training_seconds);
  }
  save_checkpoint(folder.checkpoint(options.steps), model, corpus.vocabulary.symbols());
  return outcome;
}

Index training_characters(const TrainOptions& options) {
  return options.steps * options.batch * options.accumulate * options.model.context;
}

}  // namespace headcount
