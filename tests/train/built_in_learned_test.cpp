// label: slow
// The built-in corpora are learned in few steps with the settings that --data NAME brings; what
// decides is whether the attention can look back. Training comes near the least loss that any
// predictor can have, and stays above.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/grammar.h"
#include "train/evaluation.h"
#include "train/trainer.h"

namespace headcount {
namespace {

// The settings of `data`, with `more` over them.
TrainOptions options_of(const std::string& data, const nlohmann::json& more) {
  Given given(training_settings(), data_defaults(data));
  given.put("data", data);
  given.put(more);
  return resolve_training(given);
}

// A model that learns a text.
class LearnedText {
 public:
  LearnedText(const TrainOptions& options, const Corpus& corpus)
      : options_(options), corpus_(corpus), model_(options.model, corpus.vocabulary.size()) {
    model_.initialize(options.seed);
  }
  void train_to(Index step) {
    while (trainer_.steps_done() < step) trainer_.step();
  }
  // With a sliding window of so many tokens.
  Evaluation evaluation(Index window = 0) const {
    const LanguageModel narrowed(with_settings(model_.plan(), {{"window", window}}), model_);
    return evaluate(narrowed, corpus_.validation.tokens,
                    {.marks = corpus_.marks(corpus_.validation)});
  }

 private:
  const TrainOptions& options_;
  const Corpus& corpus_;
  LanguageModel model_;
  Trainer trainer_{model_, options_, corpus_.train.tokens, 0, corpus_.marks(corpus_.train)};
};

TEST(BuiltInLearned, LookupByHeadsThatAreEnoughAndNotByAWindowThatHidesThePieces) {
  const TrainOptions options =
      options_of("lookup", {{"directions", 1}, {"steps", 500}, {"batch", 16}, {"lr", 4e-3}});
  CorpusOptions shorter = options.corpus;
  shorter.characters = 400'000;
  const Corpus corpus = load_corpus("lookup", shorter);
  LearnedText text(options, corpus);
  text.train_to(options.steps);
  EXPECT_GT(*text.evaluation().answer_accuracy, 0.95);
  EXPECT_LT(*text.evaluation(2).answer_accuracy, corpus.baselines->best());
}

TEST(BuiltInLearned, TalesNearTheirFloorByAFullContextAndNotByAWindowThatHidesTheStory) {
  constexpr TalesOptions kShort = {
      .people = 1, .things = 1, .places = 2, .events = 0, .questions = 1};
  const Corpus corpus = write_corpus(tales_of<kShort>(), {.characters = 200'000});
  const double floor = corpus.entropy_per_character.value();
  const TrainOptions options =
      options_of("tales", {{"dim", 48}, {"context", 96}, {"lr", 5e-3}, {"steps", 600}});
  LearnedText text(options, corpus);
  double before = text.evaluation().loss;
  EXPECT_GT(before, 10 * floor);  // nothing learned yet: the logarithm of the vocabulary
  for (const Index steps : {20, 60, 100, 300, 600}) {
    text.train_to(steps);
    const double loss = text.evaluation().loss;
    EXPECT_LT(loss, before) << "after " << steps << " steps";
    EXPECT_GT(loss, floor) << "after " << steps << " steps";
    before = loss;
  }
  EXPECT_LT(before, floor + 0.1);
  EXPECT_GT(*text.evaluation().answer_accuracy, 0.7);  // and still rising
  EXPECT_LT(*text.evaluation(16).answer_accuracy, corpus.baselines->guesser + 0.15);
}

}  // namespace
}  // namespace headcount
