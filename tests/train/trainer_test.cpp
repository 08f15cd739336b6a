#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

namespace headcount {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr Index kTinyVocabulary = 7, kTinyContext = 5;

Tokens random_tokens(Index count) {
  Tokens tokens;
  for (Index i = 0; i < count; ++i) {
    const auto counter = static_cast<std::uint64_t>(i);
    tokens.push_back(static_cast<std::int32_t>(random_below({6, 1, 0}, counter, kTinyVocabulary)));
  }
  return tokens;
}

TrainOptions small_options() {
  TrainOptions options;
  options.model.layers = 1;
  options.model.dim = 16;
  options.model.context = kTinyContext;
  options.batch = 4;
  options.steps = 50;
  options.warmup = 0;
  options.learning_rate = 0.01;
  options.resolve();
  return options;
}

LanguageModel small_model(const TrainOptions& options) {
  LanguageModel model(options.model, kTinyVocabulary);
  model.initialize(options.seed);
  return model;
}

double mean_loss(const LanguageModel& model, const Batch& batch) {
  Tape tape(model.parameters());
  return static_cast<double>(model.loss(tape, batch.inputs, batch.targets, batch.sequences).item());
}

// The windows that a step's forward passes see, one after the other, as one batch.
Batch windows_of_step(const TrainOptions& options, const Tokens& tokens, std::uint32_t step) {
  Batch all, one;
  const auto passes = static_cast<std::uint32_t>(options.accumulate);
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    const RandomKey key{options.seed, random_stream("batches"), step * passes + pass};
    sample_windows(tokens, key, options.batch, kTinyContext, one);
    all.inputs.insert(all.inputs.end(), one.inputs.begin(), one.inputs.end());
    all.targets.insert(all.targets.end(), one.targets.begin(), one.targets.end());
    all.sequences += one.sequences;
  }
  all.length = kTinyContext;
  return all;
}

TEST(TrainerStep, ReportsTheLossBeforeItsUpdate) {
  const TrainOptions options = small_options();
  const Tokens tokens = random_tokens(200);
  LanguageModel model = small_model(options);
  Trainer trainer(model, options, tokens);
  for (std::uint32_t step = 0; step < 3; ++step) {
    const double expected = mean_loss(model, windows_of_step(options, tokens, step));
    const StepResult result = trainer.step();
    EXPECT_EQ(result.step, step + 1);
    EXPECT_NEAR(result.loss, expected, 1e-6);
    EXPECT_DOUBLE_EQ(result.learning_rate, options.schedule().at(step));
    EXPECT_EQ(trainer.steps_done(), step + 1);
  }
}

// A step is one of all its windows as one batch: loss, gradient norm and what Adam is given.
void expect_step_of_one_batch(TrainOptions options, Index sequences) {
  options.gradient_clip = 0.25;
  const Tokens tokens = random_tokens(200);
  LanguageModel model = small_model(options), reference = small_model(options);
  const StepResult result = Trainer(model, options, tokens).step();

  const Batch batch = windows_of_step(options, tokens, 0);
  ASSERT_EQ(batch.sequences, sequences);
  Tape tape(&reference.parameters());
  const Var loss = reference.loss(tape, batch.inputs, batch.targets, batch.sequences);
  tape.backward(loss);
  const double norm = sum_gradients(reference.parameters());
  EXPECT_NEAR(result.loss, static_cast<double>(loss.item()), 1e-6);
  EXPECT_NEAR(result.gradient_norm, norm, 1e-5 * norm);
  ASSERT_GT(norm, 0.25);
  const double scale = (1 - options.optimizer.beta1) * 0.25 / norm;
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const auto moments = model.parameters().first_moment({i});
    const auto gradient = reference.parameters().gradient({i});
    for (std::size_t j = 0; j < moments.size(); ++j) {
      const double expected = scale * static_cast<double>(gradient[j]);
      ASSERT_NEAR(static_cast<double>(moments[j]), expected, 1e-6) << model.parameters().name({i});
    }
  }
}

TEST(TrainerStep, AccumulatesToTheGradientOfOneLargerBatch) {
  TrainOptions options = small_options();
  options.accumulate = 3;
  expect_step_of_one_batch(options, 12);
}

TEST(TrainerStep, InShardsIsAStepOfTheWholeBatch) {
  TrainOptions options = small_options();
  options.batch = 130;  // in 4 shards, of 32 and 33
  ASSERT_EQ(shard_count(options.batch, kTinyContext, options.model.dim), 4);
  expect_step_of_one_batch(options, 130);
  options.accumulate = 2;
  expect_step_of_one_batch(options, 260);
}

TEST(Shards, AreAPowerOfTwoWithEnoughTokensEach) {
  EXPECT_EQ(shard_count(8, 32, 32), 2) << "128 tokens each";
  EXPECT_EQ(shard_count(12, 64, 128), 4);
  EXPECT_EQ(shard_count(12, 64, 256), 2) << "256 tokens for a width of 256";
  EXPECT_EQ(shard_count(12, 64, 512), 1);
  EXPECT_EQ(shard_count(64, 256, 384), 8) << "as many as there are at most";
  EXPECT_EQ(shard_count(4, 1024, 128), 1) << "few long sequences: their ops are shared out";
  EXPECT_EQ(shard_count(1, 8192, 128), 1);
  EXPECT_EQ(shard_count(1, 1, 1), 1);
}

TEST(TrainerStep, DropsOtherElementsInEachShard) {
  TrainOptions options = small_options();
  options.batch = 104;
  options.model.dropout = 0.5;
  ASSERT_EQ(shard_count(options.batch, kTinyContext, options.model.dim), 4);
  // All windows are the same: only what is dropped tells one shard from another. If all dropped the
  // same, the step would be that of a quarter of the batch.
  const Tokens tokens(200, 3);
  TrainOptions quarter = options;
  quarter.batch = 26;
  LanguageModel model = small_model(options), part = small_model(options);
  const double norm = Trainer(model, options, tokens).step().gradient_norm;
  const double part_norm = Trainer(part, quarter, tokens).step().gradient_norm;
  EXPECT_GT(std::abs(norm - part_norm), 1e-4 * norm);
}

TEST(TrainerStep, SeesOtherWindowsEachTime) {
  TrainOptions options = small_options();
  options.learning_rate = options.least_learning_rate = 0;  // the weights stay as they are
  const Tokens tokens = random_tokens(200);
  LanguageModel model = small_model(options);
  Trainer trainer(model, options, tokens);
  const double first = trainer.step().loss, second = trainer.step().loss;
  EXPECT_GT(std::abs(first - second), 1e-4);
}

TEST(TrainerStep, LearnsATextThatRepeatsItself) {
  TrainOptions options = small_options();
  Tokens tokens;
  for (std::int32_t i = 0; i < 210; ++i) tokens.push_back(i % 7);
  LanguageModel model = small_model(options);
  Trainer trainer(model, options, tokens);
  EXPECT_NEAR(evaluate(model, tokens).loss, std::log(7.0), 0.1);
  for (Index step = 0; step < 50; ++step) trainer.step();
  const Evaluation after = evaluate(model, tokens);
  EXPECT_LT(after.loss, 0.1);
  EXPECT_EQ(after.accuracy, 1);
}

TEST(TrainerStep, ThatDivergesNamesItselfAndLeavesTheModelAlone) {
  const TrainOptions options = small_options();
  const Tokens tokens = random_tokens(200);
  LanguageModel model = small_model(options);
  Trainer trainer(model, options, tokens);
  trainer.step();
  ParameterStore& parameters = model.parameters();
  const std::span<Real> norm = parameters.value(parameters.find("model.norm.weight"));
  for (const Real bad :
       {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
    norm[0] = bad;
    std::vector<Real> before(parameters.all_values().begin(), parameters.all_values().end());
    try {
      trainer.step();
      FAIL() << "went on";
    } catch (const DivergedError& error) {
      EXPECT_NE(std::string(error.what()).find("at step 2;"), std::string::npos) << error.what();
    }
    EXPECT_EQ(trainer.steps_done(), 1);
    before[0] = parameters.all_values()[0];
    const auto same = [](Real a, Real b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    EXPECT_TRUE(std::ranges::equal(parameters.all_values(), before, same));
  }
}

// 23 tokens have 22 targets: four windows of five and one of two.
class EvaluationOfAText : public testing::Test {
 protected:
  EvaluationOfAText() : model_(small_model(small_options())), tokens_(random_tokens(23)) {
    for (Real& x : model_.parameters().all_values()) x *= 3;
  }
  LanguageModel model_;
  Tokens tokens_;
};

TEST_F(EvaluationOfAText, IsTheMeanOverEachTargetOnce) {
  double total = 0;
  Index right = 0;
  Tape tape(model_.parameters());
  for (std::size_t begin = 0; begin < 22; begin += 5) {
    const std::size_t length = std::min<std::size_t>(5, 22 - begin);
    tape.reset();
    const Var logits = model_.logits(tape, std::span(tokens_).subspan(begin, length), 1);
    for (std::size_t t = 0; t < length; ++t) {
      const auto row = logits.value().subspan(t * 7, 7);
      const auto target = static_cast<std::size_t>(tokens_[begin + t + 1]);
      double sum = 0;
      for (const Real x : row) sum += std::exp(static_cast<double>(x));
      total += std::log(sum) - static_cast<double>(row[target]);
      right += *std::ranges::max_element(row) == row[target];
    }
  }
  const Evaluation evaluation = evaluate(model_, tokens_);
  EXPECT_EQ(evaluation.characters, 22);
  EXPECT_NEAR(evaluation.loss, total / 22, 1e-6);
  EXPECT_DOUBLE_EQ(evaluation.accuracy, static_cast<double>(right) / 22);
  EXPECT_FALSE(evaluation.answer_accuracy.has_value());
}

TEST_F(EvaluationOfAText, AsksBeforeEachBatchWhetherToStop) {
  static std::atomic<int> asked;
  asked = 0;
  const std::vector<std::int32_t> many(6401, 1);
  const double loss = evaluate(model_, many, {.stop = [] { return ++asked < 0; }}).loss;
  EXPECT_GE(asked, 100);  // a batch has 64 characters at most
  EXPECT_EQ(loss, evaluate(model_, many).loss);
  asked = 0;
  EXPECT_THROW(evaluate(model_, many, {.stop = [] { return ++asked > 3; }}), EvaluationStopped);
}

TEST_F(EvaluationOfAText, ScoresTheAnswersThatAreMarkedApart) {
  // All logits equal: token 0 is predicted everywhere, and is right where the text has it.
  ParameterStore& parameters = model_.parameters();
  std::ranges::fill(parameters.value(parameters.find("lm_head.weight")), Real{0});
  for (std::size_t answer = 1; answer < 23; ++answer) {
    std::vector<std::int32_t> answers(23, 0);
    answers[answer] = 1;
    const auto accuracy =
        evaluate(model_, tokens_, {.marks = {.answers = answers}}).answer_accuracy;
    EXPECT_EQ(accuracy, std::optional<double>(tokens_[answer] == 0)) << answer;
  }
  const auto zeros = static_cast<double>(std::count(tokens_.begin() + 1, tokens_.end(), 0));
  EXPECT_GT(zeros, 0);
  const std::vector<std::int32_t> everywhere(23, 1);
  const Evaluation all = evaluate(model_, tokens_, {.marks = {.answers = everywhere}});
  EXPECT_DOUBLE_EQ(all.accuracy, zeros / 22);
  EXPECT_EQ(all.answer_accuracy, std::optional(all.accuracy));
}

TEST_F(EvaluationOfAText, CountsAnswersByHowFarBackTheyWereTold) {
  ParameterStore& parameters = model_.parameters();
  std::ranges::fill(parameters.value(parameters.find("lm_head.weight")), Real{0});
  std::vector<std::int32_t> answers(23, 0);
  answers[5] = 1;
  answers[9] = 4;
  answers[20] = 7;
  answers[22] = 8;
  const auto is_zero = [&](std::size_t at) { return Index{tokens_[at] == 0}; };
  EXPECT_EQ(evaluate(model_, tokens_, {.marks = {.answers = answers}}).answers_by_distance,
            (std::vector<AnswersAt>{
                {1, 1, is_zero(5)}, {4, 2, is_zero(9) + is_zero(20)}, {8, 1, is_zero(22)}}));
}

TEST_F(EvaluationOfAText, LossIsOfAnswersAloneWhereItIsToldTo) {
  std::vector<std::int32_t> answers(23, 0);
  answers[4] = answers[17] = 1;
  std::vector<std::int32_t> one(23, 0);
  one[4] = 1;
  const auto of = [&](const std::vector<std::int32_t>& marked) {
    return evaluate(model_, tokens_, {.marks = {.answers = marked, .only_answers = true}});
  };
  const Evaluation both = of(answers), first = of(one);
  one[4] = 0;
  one[17] = 1;
  const Evaluation second = of(one);
  EXPECT_EQ(both.characters, 2);
  EXPECT_EQ(first.characters, 1);
  EXPECT_NEAR(both.loss, (first.loss + second.loss) / 2, 1e-6);
  EXPECT_NE(first.loss, second.loss);
  EXPECT_EQ(both.answer_accuracy, std::optional(both.accuracy));
}

TEST_F(EvaluationOfAText, BeginsItsWindowsWhereStoriesBegin) {
  const std::vector<Index> starts = {0, 8};
  const Evaluation whole = evaluate(model_, tokens_, {.marks = {.starts = starts}});
  EXPECT_EQ(whole.characters, 22);
  // The second story alone, and the first one with the letter that follows it.
  const Evaluation first = evaluate(model_, std::span(tokens_).first(9));
  const Evaluation second = evaluate(model_, std::span(tokens_).subspan(8));
  EXPECT_NEAR(whole.loss, (8 * first.loss + 14 * second.loss) / 22, 1e-5);
}

TEST_F(EvaluationOfAText, DoesNotScoreTheFirstCharacter) {
  std::vector<std::int32_t> first(23, 0);
  first[0] = 1;
  EXPECT_FALSE(
      evaluate(model_, tokens_, {.marks = {.answers = first}}).answer_accuracy.has_value());
}

TEST_F(EvaluationOfAText, OfManyWindowsDoesNotDependOnHowTheyAreBatched) {
  const Tokens many = random_tokens(5001);  // many parts
  double total = 0;
  for (std::size_t begin = 0; begin < 5000; begin += 5) {
    total += evaluate(model_, std::span(many).subspan(begin, 6)).loss * 5;
  }
  const Evaluation evaluation = evaluate(model_, many);
  EXPECT_EQ(evaluation.characters, 5000);
  EXPECT_NEAR(evaluation.loss, total / 5000, 1e-6);
}

TEST_F(EvaluationOfAText, DropsNothing) {
  TrainOptions options = small_options();
  options.model.dropout = 0.5;
  LanguageModel dropping = small_model(options);
  std::ranges::copy(model_.parameters().all_values(), dropping.parameters().all_values().begin());
  EXPECT_EQ(evaluate(dropping, tokens_).loss, evaluate(model_, tokens_).loss);
}

}  // namespace
}  // namespace headcount
