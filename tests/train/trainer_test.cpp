#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "autograd/parallel.h"
#include "support/message_of.h"
#include "train/adamw.h"
#include "train/evaluation.h"
#include "train/tiny_training.h"

namespace headcount {
namespace {

// The windows that a step's forward passes see, one after the other, as one batch.
Batch windows_of_step(const TrainOptions& options, const Tokens& tokens, std::uint32_t step) {
  Batch all, one;
  for (Index pass = 0; pass < options.accumulate; ++pass) {
    const auto draw = static_cast<std::uint32_t>(step * options.accumulate + pass);
    sample_windows(tokens, {options.seed, random_stream("batches"), draw}, options.batch,
                   kTinyContext, one);
    all.inputs.insert(all.inputs.end(), one.inputs.begin(), one.inputs.end());
    all.targets.insert(all.targets.end(), one.targets.begin(), one.targets.end());
    all.sequences += one.sequences;
  }
  return all;
}

// Expects that each step is one of all its windows as one batch: loss, gradient norm and what Adam
// is given.
void expect_steps_of_one_batch(TrainOptions options, Index sequences) {
  options.gradient_clip = 0.25;
  const Tokens tokens = tiny_tokens(200);
  LanguageModel model = tiny_model(options), reference = tiny_model(options);
  reference.parameters().set_precision(options.precision);
  ASSERT_GT(model.parameters().element_count(), kElementChunk);
  Trainer trainer(model, options, tokens);
  const std::span<const Real> moments = trainer.optimizer().moments()[0].numbers.all();
  std::vector<double> expected(moments.size(), 0);
  for (std::uint32_t step = 0; step < 3; ++step) {
    ParameterStore& weights = reference.parameters();
    std::ranges::copy(model.parameters().all_values(), weights.all_values().begin());
    weights.clear_gradients();
    const StepResult result = trainer.step();
    EXPECT_EQ(result.step, step + 1);
    EXPECT_EQ(trainer.steps_done(), step + 1);
    EXPECT_DOUBLE_EQ(result.learning_rate, options.schedule().at(step));
    EXPECT_GT(result.bytes, 0u);

    const Batch batch = windows_of_step(options, tokens, step);
    ASSERT_EQ(batch.sequences, sequences);
    Tape tape(&weights);
    const Var loss =
        reference.loss(tape, batch.inputs, batch.targets, batch.sequences).cross_entropy;
    tape.backward(loss);
    const double norm = sum_gradients(weights);
    EXPECT_NEAR(result.loss, static_cast<double>(loss.item()), 1e-6);
    EXPECT_NEAR(result.gradient_norm, norm, 1e-5 * norm);
    ASSERT_GT(norm, 0.25);
    const double beta = options.optimizer.settings.number("beta1");
    const std::span<const Real> gradients = weights.complete_gradients();
    for (std::size_t i = 0; i < moments.size(); ++i) {
      expected[i] =
          beta * expected[i] + (1 - beta) * 0.25 / norm * static_cast<double>(gradients[i]);
      ASSERT_NEAR(static_cast<double>(moments[i]), expected[i], 1e-6) << i;
    }
  }
}

std::size_t bytes_of_step(const TrainOptions& options) {
  const Tokens tokens = tiny_tokens(200);
  LanguageModel model = tiny_model(options);
  return Trainer(model, options, tokens).step().bytes;
}

// Wide enough that weights and gradients are several chunks of a parallel loop.
TEST(TrainerStep, InPassesAndShardsIsAStepOfTheWholeBatch) {
  TrainOptions options = tiny_options({{"dim", 24}});
  const std::size_t bytes = bytes_of_step(options);
  expect_steps_of_one_batch(options, 4);
  options.accumulate = 3;
  expect_steps_of_one_batch(options, 12);
  options.batch = 130;  // in 4 shards, of 32 and 33
  ASSERT_EQ(shard_count(options.batch, kTinyContext, options.model->dim), 4);
  for (const Index passes : {1, 2}) {
    options.accumulate = passes;
    expect_steps_of_one_batch(options, 130 * passes);
  }
  EXPECT_GT(bytes_of_step(options), 4 * bytes) << "of all shards";
  options = tiny_options({{"dim", 24}, {"batch", 2200}, {"shards", 2}, {"precision", "bf16"}});
  ASSERT_LT(sequences_at_once(kTinyContext, options.model->dim), 1100);
  expect_steps_of_one_batch(options, 2200);
}

// Stories of eight 1s and eight 2s, of which a window sees a half.
TEST(TrainerStep, LearnsAllPartsOfStoriesThatDoNotFitIntoTheContext) {
  const TrainOptions options = tiny_options({{"context", 8}});
  const std::vector<Index> starts = {0, 16, 32, 48, 64, 80, 96, 112};
  const TextMarks marks = {.starts = starts};
  Tokens tokens;
  for (Index i = 0; i < 128; ++i) tokens.push_back(i % 16 < 8 ? 1 : 2);
  LanguageModel model = tiny_model(options);
  Trainer trainer(model, options, tokens, 0, marks);
  while (trainer.steps_done() < options.steps) trainer.step();
  // Only where a half ends does anything surprise.
  EXPECT_LT(evaluate(model, tokens, {.marks = marks}).loss, 0.5);
}

// An indexer learns from what attention reads, whether or not a batch has a question.
TEST(TrainerStep, TrainsIndexersOnTokensWithoutTargets) {
  const TrainOptions options = tiny_options({{"attention", "dsa:index-topk=2"}});
  const Tokens tokens = tiny_tokens(200);
  const std::vector<std::int32_t> no_answers(tokens.size(), 0);
  LanguageModel model = tiny_model(options);
  Trainer trainer(model, options, tokens, 0, {.distances = no_answers, .only_answers = true});
  trainer.step();
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const std::string& name = model.parameters().name({i});
    if (name.find("indexer") == std::string::npos) continue;
    const auto moments = trainer.optimizer().moments()[0].numbers.of({i});
    EXPECT_TRUE(std::ranges::any_of(moments, [](Real moment) { return moment != 0; })) << name;
  }
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

TEST(SequencesAtOnce, AreAsManyAsTheSecondLevelCacheHolds) {
  EXPECT_EQ(sequences_at_once(256, 384), 1) << "nanogpt-gpu";
  EXPECT_EQ(sequences_at_once(64, 128), 16) << "more than a shard of nanogpt-cpu has";
  EXPECT_EQ(sequences_at_once(4096, 1024), 1) << "one, however long";
}

// All windows are the same: only what is dropped tells one shard, and one piece of a shard, from
// another. If all dropped the same, the step would be that of a part of the batch.
TEST(TrainerStep, DropsOtherElementsInEachShardAndPiece) {
  TrainOptions options = tiny_options({{"batch", 104}, {"dropout", 0.5}});
  ASSERT_EQ(shard_count(options.batch, kTinyContext, options.model->dim), 4);
  const auto norm_of_step = [&] {
    LanguageModel model = tiny_model(options);
    return Trainer(model, options, Tokens(200, 3)).step().gradient_norm;
  };
  const double norm = norm_of_step();
  options.batch = 26;
  EXPECT_GT(std::abs(norm - norm_of_step()), 1e-4 * norm);
  options.shards = 2;
  options.precision = Precision::bf16;
  options.batch = 4 * sequences_at_once(kTinyContext, options.model->dim);
  const double of_pieces = norm_of_step();
  options.batch /= 2;
  EXPECT_GT(std::abs(of_pieces - norm_of_step()), 1e-4 * of_pieces);
}

TEST(TrainerStep, ThatDivergesNamesItselfAndLeavesTheModelAlone) {
  const TrainOptions options = tiny_options();
  const Tokens tokens = tiny_tokens(200);
  LanguageModel model = tiny_model(options);
  Trainer trainer(model, options, tokens);
  trainer.step();
  ParameterStore& parameters = model.parameters();
  using Numbers = std::numeric_limits<Real>;
  for (const Real bad : {Numbers::quiet_NaN(), Numbers::infinity()}) {
    parameters.value(parameters.find("model.norm.weight"))[0] = bad;
    const std::span<const Real> weights = parameters.all_values();
    const std::vector<Real> before(weights.begin(), weights.end());
    const std::string said = message_of<DivergedError>([&] { trainer.step(); });
    EXPECT_NE(said.find("at step 2;"), std::string::npos) << said;
    EXPECT_EQ(trainer.steps_done(), 1);
    EXPECT_EQ(std::memcmp(weights.data(), before.data(), weights.size_bytes()), 0);
  }
}

}  // namespace
}  // namespace headcount
