// label: slow
// The built-in corpora know the least loss that any predictor can have; training comes near it and
// stays above.
#include <gtest/gtest.h>

#include <array>

#include "data/corpus.h"
#include "data/tales_corpus.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace headcount {
namespace {

// Steps after which the loss is looked at; the sanitizers would take many minutes for all of them.
#ifdef HEADCOUNT_SANITIZED
constexpr std::array<Index, 2> kStops = {20, 60};
#else
constexpr std::array<Index, 5> kStops = {20, 60, 100, 300, 900};
#endif

TEST(EntropyFloor, IsApproachedFromAboveByTraining) {
  CorpusOptions corpus_options;
  corpus_options.characters = 200'000;
  constexpr TalesOptions kShort = {
      .people = 1, .things = 1, .places = 2, .events = 0, .questions = 1};
  const Corpus corpus = write_corpus(tales_of<kShort>(), corpus_options);
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

}  // namespace
}  // namespace headcount
