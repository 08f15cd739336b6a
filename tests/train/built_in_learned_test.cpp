// label: slow
// The built-in corpora are learned in few steps with the settings that --data NAME brings; what
// decides is whether the attention can look back. Training comes near the least loss that any
// predictor can have, and stays above.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "data/tales_corpus.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace headcount {
namespace {

Corpus short_tales() {
  constexpr TalesOptions kShort = {
      .people = 1, .things = 1, .places = 2, .events = 0, .questions = 1};
  CorpusOptions options;
  options.characters = 200'000;
  return write_corpus(tales_of<kShort>(), options);
}

// Steps after which the loss is looked at; the sanitizers would take many minutes for all of them.
#ifdef HEADCOUNT_SANITIZED
constexpr std::array<Index, 2> kStops = {20, 60};
#else
constexpr std::array<Index, 5> kStops = {20, 60, 100, 300, 900};
#endif

TEST(EntropyFloor, IsApproachedFromAboveByTraining) {
  const Corpus corpus = short_tales();
  const double floor = corpus.entropy_per_character.value();

  const TrainOptions options = resolve_training(Given(training_settings(), {{"layers", 2},
                                                                            {"dim", 48},
                                                                            {"context", 256},
                                                                            {"heads", 2},
                                                                            {"batch", 4},
                                                                            {"steps", 900},
                                                                            {"lr", 5e-3}}));
  LanguageModel model(options.model, corpus.vocabulary.size());
  model.initialize(1);
  Trainer trainer(model, options, corpus.train.tokens);
  double before = evaluate(model, corpus.validation.tokens).loss;
  EXPECT_GT(before, 10 * floor);  // nothing learned yet: the logarithm of the vocabulary
  for (const Index steps : kStops) {
    while (trainer.steps_done() < steps) trainer.step();
    const double loss = evaluate(model, corpus.validation.tokens).loss;
    EXPECT_LT(loss, before) << "after " << steps << " steps";
    EXPECT_GT(loss, floor) << "after " << steps << " steps";
    before = loss;
  }
  // Windows begin anywhere in a story, so that a little of what comes cannot be known.
  if (trainer.steps_done() == options.steps) {
    EXPECT_LT(before, floor + 0.1);
  }
}

// The sanitizers would take many minutes.
#ifndef HEADCOUNT_SANITIZED

// The settings of `data`, with `more` over them.
TrainOptions options_of(const std::string& data, const nlohmann::json& more) {
  Given given(training_settings(), data_defaults(data));
  given.put("data", data);
  given.put(more);
  return resolve_training(given);
}

std::unique_ptr<LanguageModel> trained(const TrainOptions& options, const Corpus& corpus) {
  auto model = std::make_unique<LanguageModel>(options.model, corpus.vocabulary.size());
  model->initialize(options.seed);
  Trainer trainer(*model, options, corpus.train.tokens, 0, corpus.marks(corpus.train));
  while (trainer.steps_done() < options.steps) trainer.step();
  return model;
}

Evaluation over_validation(const LanguageModel& model, const Corpus& corpus) {
  return evaluate(model, corpus.validation.tokens, {.marks = corpus.marks(corpus.validation)});
}

// Copy of `model` with a sliding window of `window` tokens.
LanguageModel narrowed(const LanguageModel& model, Index window) {
  return {with_settings(model.plan(), {{"window", window}}), model};
}

TEST(BuiltInLearned, LookupByHeadsThatAreEnoughAndNotByAWindowThatHidesThePieces) {
  const TrainOptions options =
      options_of("lookup", {{"kinds", 1}, {"steps", 500}, {"batch", 16}, {"lr", 4e-3}});
  CorpusOptions shorter = options.corpus;
  shorter.characters = 400'000;
  const Corpus corpus = load_corpus("lookup", shorter);
  const auto model = trained(options, corpus);
  const Evaluation whole = over_validation(*model, corpus);
  EXPECT_GT(*whole.answer_accuracy, 0.95);
  EXPECT_EQ(whole.characters, std::ssize(corpus.validation.distances) -
                                  std::ranges::count(corpus.validation.distances, 0));
  LanguageModel narrow = narrowed(*model, 2);
  EXPECT_LT(*over_validation(narrow, corpus).answer_accuracy, corpus.baselines->best());
}

TEST(BuiltInLearned, TalesByAFullContextAndNotByAWindowThatHidesTheStory) {
  const TrainOptions options =
      options_of("tales", {{"dim", 48}, {"context", 96}, {"lr", 5e-3}, {"steps", 600}});
  const Corpus corpus = short_tales();
  const auto model = trained(options, corpus);
  EXPECT_GT(*over_validation(*model, corpus).answer_accuracy, 0.7);  // and still rising
  LanguageModel narrow = narrowed(*model, 16);
  EXPECT_LT(*over_validation(narrow, corpus).answer_accuracy, corpus.baselines->guesser + 0.15);
}

#endif

}  // namespace
}  // namespace headcount
