// label: slow
// The built-in corpora are learned in few steps with the settings that --data NAME brings, and what
// decides is whether the attention can look back.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/tales_corpus.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace headcount {
namespace {

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
  constexpr TalesOptions kShort = {
      .people = 1, .things = 1, .places = 2, .events = 0, .questions = 1};
  CorpusOptions shorter = options.corpus;
  shorter.characters = 200'000;
  const Corpus corpus = write_corpus(tales_of<kShort>(), shorter);
  const auto model = trained(options, corpus);
  EXPECT_GT(*over_validation(*model, corpus).answer_accuracy, 0.7);  // and still rising
  LanguageModel narrow = narrowed(*model, 16);
  EXPECT_LT(*over_validation(narrow, corpus).answer_accuracy, corpus.baselines->guesser + 0.15);
}

#endif

}  // namespace
}  // namespace headcount
