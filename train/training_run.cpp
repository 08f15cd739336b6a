#include "train/training_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "models/checkpoint.h"
#include "train/command_line.h"
#include "train/interrupt.h"

namespace headcount {

double TrainingOutcome::median_milliseconds() const {
  if (step_milliseconds.empty()) return 0;
  std::vector<double> sorted = step_milliseconds;
  std::ranges::sort(sorted);
  return sorted[sorted.size() / 2];
}

double TrainingOutcome::tokens_per_second(const TrainOptions& options) const {
  if (step_milliseconds.empty()) return 0;
  return static_cast<double>(std::ssize(step_milliseconds) * options.batch * options.accumulate *
                             options.model.context) /
         training_seconds;
}

Corpus load_training_corpus(const TrainOptions& options) {
  Corpus corpus = load_corpus(options.data, options.corpus());
  const Index context = options.model.context;
  for (const auto& [part, tokens] : {std::pair{"training", std::ssize(corpus.train)},
                                     std::pair{"validation", std::ssize(corpus.validation)}}) {
    if (tokens > context) continue;
    throw DataError("--context " + std::to_string(context) + " is not shorter than the " + part +
                    " part of " + corpus.name + ", " + std::to_string(tokens) +
                    " characters; lower it or give more text");
  }
  return corpus;
}

namespace {

// Dropout is of the training, not of the model.
nlohmann::json model_settings(const ModelConfig& config) {
  nlohmann::json json = to_json(config);
  json.erase("dropout");
  return json;
}

// The name of the first setting in which the two differ, with both values; empty if none does.
std::string first_difference(const ModelConfig& wanted, const ModelConfig& has) {
  const nlohmann::json here = model_settings(wanted), there = model_settings(has);
  for (const auto& [name, value] : here.items()) {
    if (there.contains(name) && there[name] == value) continue;
    return "--" + name + " is " + value.dump() + " here and " +
           (there.contains(name) ? there[name].dump() : "nothing") + " there";
  }
  return "";
}

// A model of `options` with the weights of a checkpoint.
std::unique_ptr<LanguageModel> model_from(const std::filesystem::path& folder,
                                          const TrainOptions& options, Corpus& corpus) {
  const Checkpoint checkpoint = load_checkpoint(folder);
  const std::string difference = first_difference(options.model, checkpoint.model->config());
  if (!difference.empty()) {
    throw UsageError("the model of " + folder.string() + " is another one: " + difference +
                     "; give the flags that it has");
  }
  try {
    adopt_vocabulary(corpus, checkpoint.vocabulary);
  } catch (const DataError& error) {
    throw DataError(corpus.name + ": " + error.what());
  }
  auto model = std::make_unique<LanguageModel>(options.model, corpus.vocabulary.size());
  model->parameters().allocate();
  std::ranges::copy(checkpoint.model->parameters().all_values(),
                    model->parameters().all_values().begin());
  return model;
}

}  // namespace

std::unique_ptr<LanguageModel> initial_model(const TrainOptions& options, Corpus& corpus) {
  if (!options.init.empty()) return model_from(options.init, options, corpus);
  auto model = std::make_unique<LanguageModel>(options.model, corpus.vocabulary.size());
  model->initialize(options.seed);
  return model;
}

std::pair<std::unique_ptr<LanguageModel>, TrainingState> resumed_model(
    const TrainOptions& options, const std::filesystem::path& folder, Corpus& corpus) {
  const std::optional<std::filesystem::path> newest = find_checkpoint(folder);
  if (!newest) return {initial_model(options, corpus), TrainingState{}};
  auto model = model_from(*newest, options, corpus);
  const TrainingState state = read_training_state(*newest, model->parameters());
  return {std::move(model), state};
}

TrainingOutcome train_to_end(const TrainOptions& options, LanguageModel& model,
                             const Corpus& corpus, RunFolder& folder, const StepObserver& observe,
                             TrainingProfile* profile) {
  using Clock = std::chrono::steady_clock;
  Trainer trainer(model, options, corpus.train, folder.state().step);
  trainer.profile(profile);
  TrainingOutcome outcome;
  const auto validate = [&] {
    outcome.validation = evaluate(model, corpus.validation, {.answers = corpus.validation_answers});
  };
  if (trainer.steps_done() == options.steps) {
    outcome.last = {.step = options.steps, .loss = std::numeric_limits<double>::quiet_NaN()};
    validate();
  }
  while (trainer.steps_done() < options.steps) {
    const Clock::time_point start = Clock::now();
    outcome.last = trainer.step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    outcome.training_seconds += seconds;
    outcome.step_milliseconds.push_back(1e3 * seconds);
    const Index step = outcome.last.step;
    const auto due = [&](Index every) {
      return step == options.steps || (every > 0 && step % every == 0);
    };
    std::optional<double> loss;
    if (due(options.eval_every)) {
      validate();
      loss = outcome.validation.loss;
      // The weights of the last step meet no other loss.
      if (!std::isfinite(*loss)) throw DivergedError("validation loss", *loss, step);
    }
    folder.log(outcome.last, loss ? std::optional(outcome.validation) : std::nullopt);
    observe(outcome.last, loss, outcome.training_seconds);
    const int signal = interrupt_signal();
    if (due(options.checkpoint_every) || signal != 0)
      folder.save(step, loss, model, corpus.vocabulary, options.keep);
    if (signal != 0 && step < options.steps) {
      throw InterruptedError(signal, "stopped after step " + std::to_string(step) +
                                         ", which is saved; go on with headcount train --resume " +
                                         shell_word(folder.path().string()));
    }
  }
  return outcome;
}

}  // namespace headcount
