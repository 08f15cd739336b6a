#include "train/training_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/text.h"
#include "models/checkpoint/checkpoint.h"
#include "train/interrupt.h"
#include "train/loaded_run.h"
#include "train/statistics.h"

namespace headcount {

double TrainingOutcome::median_milliseconds() const {
  return step_milliseconds.empty() ? 0 : median(step_milliseconds);
}

double TrainingOutcome::tokens_per_second(const TrainOptions& options) const {
  return headcount::tokens_per_second(options, std::ssize(step_milliseconds), training_seconds);
}

double tokens_per_second(const TrainOptions& options, Index steps, double seconds) {
  if (steps == 0) return 0;
  return static_cast<double>(steps * options.batch * options.accumulate * options.model.context) /
         seconds;
}

Corpus load_training_corpus(const TrainOptions& options) {
  Corpus corpus = load_corpus(options.data, options.corpus);
  const Index context = options.model.context;
  for (const auto& [part, tokens] : {std::pair{"training", std::ssize(corpus.train)},
                                     std::pair{"validation", std::ssize(corpus.validation)}}) {
    if (tokens > context) continue;
    throw DataError("`context` " + std::to_string(context) + " is not shorter than the " + part +
                    " part of " + corpus.name + ", " + std::to_string(tokens) +
                    " characters; lower it or give more text");
  }
  return corpus;
}

void require_same_model(const std::filesystem::path& folder, const nlohmann::json& here,
                        const nlohmann::json& there) {
  std::string different;
  for (const auto& [name, value] : here.items()) {
    const nlohmann::json other = there.value(name, nlohmann::json());
    // Dropout is of the training.
    if (name == "dropout" || other == value || !is_set(value)) continue;
    different += (different.empty() ? "`" : ", `") + name + "` is " + value.dump() + " here and " +
                 (is_set(other) ? other.dump() : "nothing") + " there";
  }
  if (different.empty()) return;
  throw SettingError("the model of " + folder.string() + " is another one: " + different +
                     "; leave out what contradicts it");
}

namespace {

// `folder` is a checkpoint, or a run, of which it is the newest.
Checkpoint load_same_model(const std::filesystem::path& folder, const TrainOptions& options) {
  Checkpoint checkpoint = load_checkpoint(find_checkpoint(folder).value_or(folder));
  require_same_model(folder, to_json(options.model), to_json(checkpoint.model->config()));
  return checkpoint;
}

// A model of `options`, whose dropout may be another one, with the weights of a checkpoint.
std::unique_ptr<LanguageModel> model_of(Checkpoint& checkpoint, const TrainOptions& options) {
  auto model = std::make_unique<LanguageModel>(options.model, checkpoint.vocabulary.size());
  model->parameters().allocate();
  std::ranges::copy(checkpoint.model->parameters().all_values(),
                    model->parameters().all_values().begin());
  return model;
}

// The same, and gives `corpus` the checkpoint's vocabulary.
std::unique_ptr<LanguageModel> model_from(const std::filesystem::path& folder,
                                          const TrainOptions& options, Corpus& corpus) {
  Checkpoint checkpoint = load_same_model(folder, options);
  adopt_vocabulary(corpus, checkpoint.vocabulary);
  return model_of(checkpoint, options);
}

// The same for a text that has the checkpoint's vocabulary.
std::unique_ptr<LanguageModel> model_from(const std::filesystem::path& folder,
                                          const TrainOptions& options,
                                          const Vocabulary& vocabulary) {
  Checkpoint checkpoint = load_same_model(folder, options);
  if (checkpoint.vocabulary != vocabulary)
    throw DataError(folder.string() + " has other characters than the text");
  return model_of(checkpoint, options);
}

}  // namespace

std::unique_ptr<LanguageModel> initial_model(const TrainOptions& options, Corpus& corpus) {
  if (!options.init.empty()) return model_from(options.init, options, corpus);
  return initial_model(options, corpus.vocabulary);
}

std::unique_ptr<LanguageModel> initial_model(const TrainOptions& options,
                                             const Vocabulary& vocabulary) {
  if (options.init.empty()) {
    auto model = std::make_unique<LanguageModel>(options.model, vocabulary.size());
    model->initialize(options.seed);
    return model;
  }
  return model_from(options.init, options, vocabulary);
}

namespace {

// `text` is the corpus, or its vocabulary.
template <class Text>
std::pair<std::unique_ptr<LanguageModel>, TrainingState> newest_model(
    const TrainOptions& options, const std::filesystem::path& folder, Text& text) {
  const auto load = [&](const std::filesystem::path& checkpoint) {
    auto model = model_from(checkpoint, options, text);
    const TrainingState state = read_training_state(checkpoint, model->parameters());
    return std::pair(std::move(model), state);
  };
  if (find_checkpoint(folder)) {
    auto newest = load_newest(folder, load);
    const Index step = newest.second.step;
    if (step > options.steps)
      throw DataError(folder.string() + " has a checkpoint of step " + std::to_string(step) +
                      ", but its `steps` are " + std::to_string(options.steps) +
                      "; give config.json the number that it was trained with");
    return newest;
  }
  return {initial_model(options, text), TrainingState{}};
}

}  // namespace

std::pair<std::unique_ptr<LanguageModel>, TrainingState> resumed_model(
    const TrainOptions& options, const std::filesystem::path& folder, Corpus& corpus) {
  return newest_model(options, folder, corpus);
}

std::pair<std::unique_ptr<LanguageModel>, TrainingState> resumed_model(
    const TrainOptions& options, const std::filesystem::path& folder,
    const Vocabulary& vocabulary) {
  return newest_model(options, folder, vocabulary);
}

namespace {

// Where a run begins or goes on.
struct Start {
  Index step = 0;
  bool evaluated = true;  // what `unevaluated` is about otherwise
  StepResult unevaluated;
};

// A run on its way to the last step.
class Training {
 public:
  Training(const TrainOptions& options, LanguageModel& model, const Corpus& corpus,
           RunFolder* folder, const StepObserver& observe, Ranks& ranks)
      : options_(options),
        model_(model),
        corpus_(corpus),
        folder_(folder),
        observe_(observe),
        ranks_(ranks) {}

  TrainingOutcome run(TrainingProfile* profile);

 private:
  bool due(Index every, Index step) const {
    return step == options_.steps || (every > 0 && step % every == 0);
  }
  Start start();
  void evaluate_model();
  void complete(const StepResult& result);
  int signal() const;
  [[noreturn]] void stop(int signal, const std::string& where) const;

  const TrainOptions& options_;
  LanguageModel& model_;
  const Corpus& corpus_;
  RunFolder* folder_;  // null where another rank has it
  const StepObserver& observe_;
  Ranks& ranks_;
  TrainingOutcome outcome_;
};

TrainingOutcome Training::run(TrainingProfile* profile) {
  using Clock = std::chrono::steady_clock;
  const Start from = start();
  Trainer trainer(model_, options_, corpus_.train, from.step, corpus_.train_marks(), ranks_);
  trainer.profile(profile);
  if (!from.evaluated) {
    complete(from.unevaluated);
  } else if (trainer.steps_done() == options_.steps) {
    outcome_.last = {.step = options_.steps, .loss = std::numeric_limits<double>::quiet_NaN()};
    evaluate_model();
  }
  while (trainer.steps_done() < options_.steps) {
    const Clock::time_point start = Clock::now();
    const StepResult result = trainer.step();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    outcome_.training_seconds += seconds;
    outcome_.step_milliseconds.push_back(1e3 * seconds);
    complete(result);
  }
  return outcome_;
}

// As rank 0 has it.
Start Training::start() {
  Start start;
  if (folder_ != nullptr) {
    const TrainingState& state = folder_->state();
    start.step = state.step;
    start.evaluated = !state.unevaluated;
    if (state.unevaluated) start.unevaluated = *state.unevaluated;
  }
  broadcast(ranks_, std::span(&start, 1));
  ParameterStore& parameters = model_.parameters();
  for (const std::span<Real> numbers :
       {parameters.all_values(), parameters.all_first_moments(), parameters.all_second_moments()}) {
    broadcast(ranks_, numbers);
  }
  return start;
}

// The signal that asked one of the ranks to stop, the same at all of them, or 0.
int Training::signal() const {
  const auto flag = first_flag(ranks_, interrupt_signal());
  return flag ? flag->second : 0;
}

void Training::evaluate_model() {
  try {
    outcome_.validation =
        evaluate(model_, corpus_.validation,
                 {.marks = corpus_.validation_marks(), .stop = interrupted, .ranks = &ranks_});
  } catch (const EvaluationStopped&) {
    stop(signal(), "in the evaluation after step " + std::to_string(outcome_.last.step));
  }
}

// What follows a step: evaluation, log and checkpoint where they are due.
void Training::complete(const StepResult& result) {
  outcome_.last = result;
  const Index step = result.step;
  std::optional<double> loss;
  if (due(options_.eval_every, step)) {
    try {
      evaluate_model();
    } catch (const InterruptedError&) {
      if (folder_ != nullptr)
        folder_->save_unevaluated(result, model_, corpus_.vocabulary, options_.keep);
      throw;
    }
    loss = outcome_.validation.loss;
    // The loss of the next step shows weights that a step has spoiled. After the last step there is
    // no next one, only this loss.
    if (!std::isfinite(*loss)) throw DivergedError("validation loss", *loss, step, options_, step);
  }
  if (folder_ != nullptr)
    folder_->log(result, loss ? std::optional(outcome_.validation) : std::nullopt);
  observe_(result, loss, outcome_.training_seconds);
  const int stopped = signal();
  if (folder_ != nullptr && (due(options_.checkpoint_every, step) || stopped != 0 ||
                             folder_->wants_checkpoint() || folder_->state().unevaluated)) {
    folder_->save(step, loss, model_, corpus_.vocabulary, options_.keep);
  }
  if (stopped != 0 && step < options_.steps) stop(stopped, "after step " + std::to_string(step));
}

void Training::stop(int signal, const std::string& where) const {
  const std::string folder = folder_ == nullptr ? "RUN" : shell_word(folder_->path().string());
  throw InterruptedError(
      signal,
      "stopped " + where + ", which is saved; go on with headcount train `resume` " + folder);
}

}  // namespace

TrainingOutcome train_to_end(const TrainOptions& options, LanguageModel& model,
                             const Corpus& corpus, RunFolder* folder, const StepObserver& observe,
                             TrainingProfile* profile, Ranks& ranks) {
  return Training(options, model, corpus, folder, observe, ranks).run(profile);
}

}  // namespace headcount
