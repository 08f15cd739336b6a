#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/message_of.h"
#include "train/adamw.h"
#include "train/evaluation.h"
#include "train/tiny_training.h"

namespace headcount {
namespace {

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
  const TrainOptions options = tiny_options();
  const Tokens tokens = tiny_tokens(200);
  LanguageModel model = tiny_model(options);
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

TEST(TrainerStep, SaysWhatMemoryItHolds) {
  TrainOptions options = tiny_options();
  const Tokens tokens = tiny_tokens(200);
  LanguageModel model = tiny_model(options);
  Trainer trainer(model, options, tokens);
  trainer.step();
  const std::size_t bytes = trainer.step().bytes;
  EXPECT_GT(bytes, 0u);
  EXPECT_EQ(trainer.step().bytes, bytes);
  options.batch *= 16;
  EXPECT_GT(Trainer(model, options, tokens).step().bytes, 4 * bytes);
}

// Stories of eight 1s and eight 2s, of which a window sees a half.
TEST(TrainerStep, TrainsOnAllPartsOfStoriesThatDoNotFitIntoTheContext) {
  TrainOptions options = tiny_options();
  options.model = with_settings(options.model, {{"context", 8}});
  Tokens tokens;
  std::vector<Index> starts;
  for (Index story = 0; story < 8; ++story) {
    starts.push_back(std::ssize(tokens));
    tokens.insert(tokens.end(), 8, 1);
    tokens.insert(tokens.end(), 8, 2);
  }
  LanguageModel model = tiny_model(options);
  const TextMarks marks = {.starts = starts};
  Trainer trainer(model, options, tokens, 0, marks);
  while (trainer.steps_done() < options.steps) trainer.step();
  // Only where a half ends does anything surprise.
  EXPECT_LT(evaluate(model, tokens, {.marks = marks}).loss, 0.5);
}

// A step is one of all its windows as one batch: loss, gradient norm and what Adam is given.
void expect_step_of_one_batch(TrainOptions options, Index sequences) {
  options.gradient_clip = 0.25;
  const Tokens tokens = tiny_tokens(200);
  LanguageModel model = tiny_model(options), reference = tiny_model(options);
  Trainer trainer(model, options, tokens);
  const StepResult result = trainer.step();

  const Batch batch = windows_of_step(options, tokens, 0);
  ASSERT_EQ(batch.sequences, sequences);
  Tape tape(&reference.parameters());
  const Var loss = reference.loss(tape, batch.inputs, batch.targets, batch.sequences).cross_entropy;
  tape.backward(loss);
  const double norm = sum_gradients(reference.parameters());
  EXPECT_NEAR(result.loss, static_cast<double>(loss.item()), 1e-6);
  EXPECT_NEAR(result.gradient_norm, norm, 1e-5 * norm);
  ASSERT_GT(norm, 0.25);
  const double scale = (1 - options.optimizer.settings.number("beta1")) * 0.25 / norm;
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const auto moments = trainer.optimizer().moments()[0].numbers.of({i});
    const auto gradient = reference.parameters().gradient({i});
    for (std::size_t j = 0; j < moments.size(); ++j) {
      const double expected = scale * static_cast<double>(gradient[j]);
      ASSERT_NEAR(static_cast<double>(moments[j]), expected, 1e-6) << model.parameters().name({i});
    }
  }
}

TEST(TrainerStep, InPassesAndShardsIsAStepOfTheWholeBatch) {
  TrainOptions options = tiny_options();
  options.accumulate = 3;
  expect_step_of_one_batch(options, 12);
  options.batch = 130;  // in 4 shards, of 32 and 33
  ASSERT_EQ(shard_count(options.batch, kTinyContext, options.model->dim), 4);
  for (const Index passes : {1, 2}) {
    options.accumulate = passes;
    expect_step_of_one_batch(options, 130 * passes);
  }
}

// An indexer learns from what attention reads, whether or not a batch has a question.
TEST(TrainerStep, TrainsIndexersOnTokensWithoutTargets) {
  TrainOptions options = tiny_options();
  options.model = with_settings(options.model, {{"attention", "dsa:index-topk=2"}});
  const Tokens tokens = tiny_tokens(200);
  const std::vector<std::int32_t> no_answers(tokens.size(), 0);
  LanguageModel model = tiny_model(options);
  Trainer trainer(model, options, tokens, 0, {.distances = no_answers, .only_answers = true});
  trainer.step();
  bool trained = false;
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    if (model.parameters().name({i}).find("indexer") == std::string::npos) continue;
    const auto moments = trainer.optimizer().moments()[0].numbers.of({i});
    trained = trained || std::ranges::any_of(moments, [](Real moment) { return moment != 0; });
  }
  EXPECT_TRUE(trained);
}

TEST(ShardsOfABatch, AreAPowerOfTwoWithEnoughTokensEach) {
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
  TrainOptions options = tiny_options();
  options.batch = 104;
  options.dropout = 0.5;
  ASSERT_EQ(shard_count(options.batch, kTinyContext, options.model->dim), 4);
  // All windows are the same: only what is dropped tells one shard from another. If all dropped the
  // same, the step would be that of a quarter of the batch.
  const Tokens tokens(200, 3);
  TrainOptions quarter = options;
  quarter.batch = 26;
  LanguageModel model = tiny_model(options), part = tiny_model(options);
  const double norm = Trainer(model, options, tokens).step().gradient_norm;
  const double part_norm = Trainer(part, quarter, tokens).step().gradient_norm;
  EXPECT_GT(std::abs(norm - part_norm), 1e-4 * norm);
}

TEST(TrainerStep, LearnsATextThatRepeatsItself) {
  TrainOptions options = tiny_options();
  Tokens tokens;
  for (std::int32_t i = 0; i < 210; ++i) tokens.push_back(i % 7);
  LanguageModel model = tiny_model(options);
  Trainer trainer(model, options, tokens);
  EXPECT_NEAR(evaluate(model, tokens).loss, std::log(7.0), 0.1);
  for (Index step = 0; step < 50; ++step) trainer.step();
  const Evaluation after = evaluate(model, tokens);
  EXPECT_LT(after.loss, 0.1);
  EXPECT_EQ(after.accuracy, 1);
}

TEST(TrainerStep, ThatDivergesNamesItselfAndLeavesTheModelAlone) {
  const TrainOptions options = tiny_options();
  const Tokens tokens = tiny_tokens(200);
  LanguageModel model = tiny_model(options);
  Trainer trainer(model, options, tokens);
  trainer.step();
  ParameterStore& parameters = model.parameters();
  const std::span<Real> norm = parameters.value(parameters.find("model.norm.weight"));
  for (const Real bad :
       {std::numeric_limits<Real>::quiet_NaN(), std::numeric_limits<Real>::infinity()}) {
    norm[0] = bad;
    std::vector<Real> before(parameters.all_values().begin(), parameters.all_values().end());
    EXPECT_NE(message_of<DivergedError>([&] { trainer.step(); }).find("at step 2;"),
              std::string::npos);
    EXPECT_EQ(trainer.steps_done(), 1);
    before[0] = parameters.all_values()[0];
    const auto same = [](Real a, Real b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    EXPECT_TRUE(std::ranges::equal(parameters.all_values(), before, same));
  }
}

}  // namespace
}  // namespace headcount
