#include "train/run/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "train/interrupt.h"
#include "train/run/loaded.h"
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
  return static_cast<double>(steps * options.batch * options.accumulate * options.model->context) /
         seconds;
}

Corpus load_training_corpus(const std::string& data, const CorpusOptions& options, Index context) {
  Corpus corpus = load_corpus(data, options);
  for (const auto& [part, tokens] : {std::pair{"training", std::ssize(corpus.train)},
                                     std::pair{"validation", std::ssize(corpus.validation)}}) {
    if (tokens > context) continue;
    throw DataError("`context` " + std::to_string(context) + " is not shorter than the " + part +
                    " part of " + corpus.name + ", " + std::to_string(tokens) +
                    " characters; lower it or give more text");
  }
  return corpus;
}

Corpus load_training_corpus(const TrainOptions& options) {
  return load_training_corpus(options.data, options.corpus, options.model->context);
}

Corpus load_training_corpus(const Given& given) {
  return load_training_corpus(data_of(given), corpus_options(given),
                              read_model_settings(given).context);
}

void require_same_model(const std::filesystem::path& folder, const nlohmann::json& here,
                        const nlohmann::json& there) {
  std::string different;
  for (const auto& [name, value] : here.items()) {
    const nlohmann::json other = there.value(name, nlohmann::json());
    if (other == value) continue;
    different += (different.empty() ? "`" : ", `") + name + "` is " + value.dump() + " here and " +
                 (other.is_null() ? "nothing" : other.dump()) + " there";
  }
  if (different.empty()) return;
  throw SettingError("the model of " + folder.string() + " is another one: " + different +
                     "; leave out what contradicts it");
}

namespace {

// `folder` is a checkpoint, or a run, of which it is the newest.
Checkpoint load_same_model(const std::filesystem::path& folder, const TrainOptions& options) {
  Checkpoint checkpoint = load_checkpoint(find_checkpoint(folder).value_or(folder));
  require_same_model(folder, options.model->settings, checkpoint.model->plan()->settings);
  return checkpoint;
}

// Its model, and `corpus` gets its vocabulary.
std::unique_ptr<LanguageModel> model_from(const std::filesystem::path& folder,
                                          const TrainOptions& options, Corpus& corpus) {
  Checkpoint checkpoint = load_same_model(folder, options);
  adopt_vocabulary(corpus, checkpoint.vocabulary);
  return std::move(checkpoint.model);
}

// The same for a text that has the checkpoint's vocabulary.
std::unique_ptr<LanguageModel> model_from(const std::filesystem::path& folder,
                                          const TrainOptions& options,
                                          const Vocabulary& vocabulary) {
  Checkpoint checkpoint = load_same_model(folder, options);
  if (checkpoint.vocabulary != vocabulary)
    throw DataError(folder.string() + " has other characters than the text");
  return std::move(checkpoint.model);
}

// With an optimizer that remembers nothing.
Learner learner_of(std::unique_ptr<LanguageModel> model, const TrainOptions& options) {
  auto optimizer = options.optimizer.make(model->parameters());
  return {std::move(model), std::move(optimizer)};
}

}  // namespace

Learner initial_learner(const TrainOptions& options, Corpus& corpus) {
  if (!options.init.empty()) return learner_of(model_from(options.init, options, corpus), options);
  return initial_learner(options, corpus.vocabulary);
}

Learner initial_learner(const TrainOptions& options, const Vocabulary& vocabulary) {
  if (options.init.empty()) {
    auto model = std::make_unique<LanguageModel>(options.model, vocabulary.size());
    model->initialize(options.seed);
    return learner_of(std::move(model), options);
  }
  return learner_of(model_from(options.init, options, vocabulary), options);
}

namespace {

// `text` is the corpus, or its vocabulary.
template <class Text>
std::pair<Learner, TrainingState> newest_learner(const TrainOptions& options,
                                                 const std::filesystem::path& folder, Text& text) {
  const auto load = [&](const std::filesystem::path& checkpoint) {
    Learner learner = learner_of(model_from(checkpoint, options, text), options);
    const TrainingState state =
        read_training_state(checkpoint, learner.model->parameters(), *learner.optimizer);
    return std::pair(std::move(learner), state);
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
  return {initial_learner(options, text), TrainingState{}};
}

}  // namespace

std::pair<Learner, TrainingState> resumed_learner(const TrainOptions& options,
                                                  const std::filesystem::path& folder,
                                                  Corpus& corpus) {
  return newest_learner(options, folder, corpus);
}

std::pair<Learner, TrainingState> resumed_learner(const TrainOptions& options,
                                                  const std::filesystem::path& folder,
                                                  const Vocabulary& vocabulary) {
  return newest_learner(options, folder, vocabulary);
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
  Training(const TrainOptions& options, Learner& learner, const Corpus& corpus, RunFolder* folder,
           const StepObserver& observe, Ranks& ranks)
      : options_(options),
        learner_(learner),
        model_(*learner.model),
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
  Learner& learner_;
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
  Trainer trainer(model_, options_, corpus_.train, from.step, corpus_.train_marks(), ranks_,
                  learner_.optimizer.get());
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
  broadcast(ranks_, model_.parameters().all_values());
  for (const Optimizer::Moment& moment : learner_.optimizer->moments())
    broadcast(ranks_, moment.numbers.all());
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
        folder_->save_unevaluated(result, learner_, corpus_.vocabulary, options_.keep);
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
    folder_->save(step, loss, learner_, corpus_.vocabulary, options_.keep);
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

TrainingOutcome train_to_end(const TrainOptions& options, Learner& learner, const Corpus& corpus,
                             RunFolder* folder, const StepObserver& observe,
                             TrainingProfile* profile, Ranks& ranks) {
  return Training(options, learner, corpus, folder, observe, ranks).run(profile);
}

}  // namespace headcount
