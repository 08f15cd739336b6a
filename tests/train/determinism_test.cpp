// programs: own_kinds
// label: unsanitized
// Trained weights depend on the seed alone: any number of threads gives the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "autograd/parallel.h"
#include "train/evaluation.h"
#include "train/tiny_training.h"
#include "train/trainer.h"

namespace headcount {
namespace {

constexpr Index kTrainedVocabulary = 20;

// Sizes at which products, elementwise loops and attention all have several chunks: 240 rows of 48,
// sequences longer than a tile of 64; with more than 3 sequences, several shards.
TrainOptions options_of(const nlohmann::json& more) {
  nlohmann::json values = {{"dim", 48},  {"context", 80}, {"dropout", 0.1},
                           {"batch", 3}, {"steps", 5},    {"warmup", 2}};
  values.update(more);
  const auto pattern = parse_attention_spec(values["attention"].get<std::string>());
  values["layers"] = std::max<Index>(2, std::ssize(pattern.cycle));
  return tiny_options(values);
}

// All weights after all steps.
std::vector<Real> trained(const TrainOptions& options, int thread_count) {
  set_threads(thread_count);
  return train_tiny(options, kTrainedVocabulary).weights;
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
INSTANTIATE_TEST_SUITE_P(Determinism, TrainedWeights, testing::ValuesIn(attentions()));

// What does not depend on the attention but for what it has of the model's code: rows of keys and
// values, an indexer's choice of rows, a state.
class FewTrainedWeights : public TrainedWeights {};
INSTANTIATE_TEST_SUITE_P(Determinism, FewTrainedWeights, testing::Values("mla", "csa", "delta"));

// One shard, on whose ops all threads work; four shards, of 2, 2, 2 and 3 sequences.
TEST_P(TrainedWeights, AreBitwiseEqualForAnyNumberOfThreads) {
  for (const auto& [batch, shards] : {std::pair<Index, Index>{3, 1}, {9, 4}}) {
    const TrainOptions options = options_of({{"attention", GetParam()}, {"batch", batch}});
    ASSERT_EQ(shard_count(options), shards);
    EXPECT_TRUE(trained(options, 3) == trained(options, 1)) << shards << " shards";
  }
}

TEST_P(FewTrainedWeights, AreBitwiseEqualForAnyNumberOfThreadsInBf16AndByMuon) {
  for (const Index batch : {3, 9}) {  // one shard, four shards
    nlohmann::json settings = {{"attention", GetParam()}, {"batch", batch}};
    const std::vector<Real> usual = trained(options_of(settings), 1);
    for (const auto& [name, value] : {std::pair{"precision", "bf16"}, {"optimizer", "muon"}}) {
      nlohmann::json other = settings;
      other[name] = value;
      const std::vector<Real> one = trained(options_of(other), 1);
      EXPECT_FALSE(one == usual) << name << " changes nothing";
      for (const int threads : {2, 3})
        EXPECT_TRUE(trained(options_of(other), threads) == one) << name << " " << threads;
    }
  }
}

// Short windows are evaluated side by side, long ones one after the other.
TEST_P(FewTrainedWeights, HaveTheSameLossForAnyNumberOfThreads) {
  const Tokens tokens = tiny_tokens(2000, kTrainedVocabulary);  // a shorter window at the end
  for (const Index context : {80, 1024}) {
    const TrainOptions options = options_of({{"attention", GetParam()}, {"context", context}});
    const LanguageModel model = tiny_model(options, kTrainedVocabulary);
    const auto losses = [&](int threads) {
      set_threads(threads);
      const Evaluation evaluation = evaluate(model, tokens, {.attention_stats = true});
      return std::pair(evaluation.loss, evaluation.attention_entropy);
    };
    const auto one = losses(1);
    for (const int threads : {2, 3}) EXPECT_EQ(losses(threads), one) << context;
  }
}

}  // namespace
}  // namespace headcount
