// programs: own_kinds
// label: unsanitized
// Trained weights depend on the seed alone: any number of threads gives the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/sha256.h"
#include "autograd/parallel.h"
#include "train/evaluation.h"
#include "train/tiny_training.h"
#include "train/trainer.h"

namespace headcount {
namespace {

constexpr Index kTrainedVocabulary = 20;

// Sizes at which products, elementwise loops and attention all have several chunks: 240 rows of 48,
// sequences longer than a tile of 64; with more than 3 sequences, several shards.
TrainOptions options_of(const std::string& attention, Index batch = 3, Index context = 80) {
  const Index layers = std::max<Index>(2, std::ssize(parse_attention_spec(attention).cycle));
  return resolve_training(Given(training_settings(), {{"attention", attention},
                                                      {"layers", layers},
                                                      {"dim", 48},
                                                      {"context", context},
                                                      {"dropout", 0.1},
                                                      {"batch", batch},
                                                      {"steps", 5},
                                                      {"warmup", 2},
                                                      {"lr", 0.01}}));
}

std::string hash(std::span<const Real> values) {
  return sha256_hex({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

// Hash of all weights after all steps.
std::string trained(const TrainOptions& options, int thread_count) {
  set_threads(thread_count);
  const std::vector<std::int32_t> tokens = tiny_tokens(2000, kTrainedVocabulary);
  LanguageModel model(options.model, kTrainedVocabulary);
  model.initialize(options.seed);
  const std::string fresh = hash(model.parameters().all_values());
  Trainer trainer(model, options, tokens);
  while (trainer.steps_done() < options.steps) trainer.step();
  const std::string result = hash(model.parameters().all_values());
  EXPECT_NE(result, fresh);
  return result;
}

class TrainedWeights : public testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { set_threads(0); }
};
std::vector<std::string> attentions() {
  std::vector<std::string> names;
  for (const AttentionKind* kind : attention_kinds()) names.emplace_back(kind->name);
  names.emplace_back("gqa2@20/2*share");  // three layers add to the gradients of what one kept
  names.emplace_back("gqa2:canon=AB@8/gqa2:sinks=on:value-residual=0.3/share@8/share@0");
  return names;
}
std::string test_name(const testing::TestParamInfo<std::string>& attention) {
  std::string name = attention.param;
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(c); }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Determinism, TrainedWeights, testing::ValuesIn(attentions()), test_name);

// What does not depend on the attention but for what it has of the model's code: rows of keys and
// values, an indexer's choice of rows, a state.
class FewTrainedWeights : public TrainedWeights {};
INSTANTIATE_TEST_SUITE_P(Determinism, FewTrainedWeights, testing::Values("mla", "csa", "delta"),
                         test_name);

// One shard, on whose ops all threads work; four shards, of 2, 2, 2 and 3 sequences.
TEST_P(TrainedWeights, AreBitwiseEqualForAnyNumberOfThreads) {
  for (const auto& [batch, shards] : {std::pair<Index, Index>{3, 1}, {9, 4}}) {
    const TrainOptions options = options_of(GetParam(), batch);
    ASSERT_EQ(shard_count(options.batch, options.model->context, options.model->dim), shards);
    EXPECT_EQ(trained(options, 3), trained(options, 1)) << shards << " shards";
  }
}

TEST(TrainedByMuon, WeightsAreBitwiseEqualForAnyNumberOfThreads) {
  Given given(training_settings(), to_json(options_of("mla", 8)));
  given.put("optimizer", "muon");
  const TrainOptions options = resolve_training(given);
  const std::string one = trained(options, 1);
  for (const int thread_count : {2, 3}) EXPECT_EQ(trained(options, thread_count), one);
  EXPECT_NE(one, trained(options_of("mla", 8), 1)) << "AdamW trains other weights";
  set_threads(0);
}

TEST_P(FewTrainedWeights, AreBitwiseEqualForAnyNumberOfThreadsInBf16) {
  for (const Index batch : {3, 9}) {  // one shard, four shards
    TrainOptions options = options_of(GetParam(), batch);
    const std::string in_f32 = trained(options, 1);
    options.precision = Precision::bf16;
    const std::string alone = trained(options, 1);
    EXPECT_NE(alone, in_f32) << "nothing was rounded";
    for (const int thread_count : {2, 3})
      EXPECT_EQ(trained(options, thread_count), alone) << thread_count << " threads";
  }
}

// Short windows are evaluated side by side, long ones one after the other.
TEST_P(FewTrainedWeights, HaveTheSameLossForAnyNumberOfThreads) {
  for (const Index context : {80, 1024}) {
    const TrainOptions options = options_of(GetParam(), 3, context);
    LanguageModel model(options.model, kTrainedVocabulary);
    model.initialize(1);
    const std::vector<std::int32_t> tokens =
        tiny_tokens(2000, kTrainedVocabulary);  // 2000: a shorter window at the end
    set_threads(1);
    const Evaluation alone = evaluate(model, tokens, {.attention_stats = true});
    EXPECT_EQ(alone.characters, 1999);
    for (const int thread_count : {2, 3}) {
      set_threads(thread_count);
      const Evaluation together = evaluate(model, tokens, {.attention_stats = true});
      EXPECT_EQ(together.loss, alone.loss) << context << ", " << thread_count << " threads";
      EXPECT_EQ(together.attention_entropy, alone.attention_entropy);
    }
  }
}

}  // namespace
}  // namespace headcount
