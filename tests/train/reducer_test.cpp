// Ranks that are threads of this process: training shared out over them, without MPI.
#include "train/reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "autograd/parallel.h"
#include "train/tiny_training.h"
#include "train/trainer.h"

namespace headcount {
namespace {

constexpr Index kSharedVocabulary = 20;

// What the ranks of a test see of each other.
struct Together {
  explicit Together(int size) : passes(size), items(size), all_here(size) {}
  std::vector<Ranks::Pass> passes;
  std::vector<std::byte*> items;
  std::barrier<> all_here;
};

class ThreadRanks : public Ranks {
 public:
  ThreadRanks(Together& together, int rank) : together_(together), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(together_.passes.size()); }

  void gather(std::span<std::byte> bytes, std::size_t item_bytes) override {
    together_.items[rank_] = bytes.data();
    together_.all_here.arrive_and_wait();
    const auto count = static_cast<Index>(bytes.size() / item_bytes);
    for (int other = 0; other < size(); ++other) {
      const Part part = part_of(count, other, size());
      const std::size_t begin = part.first * item_bytes, length = part.size() * item_bytes;
      if (other != rank_ && length > 0)
        std::memcpy(bytes.data() + begin, together_.items[other] + begin, length);
    }
    together_.all_here.arrive_and_wait();
  }

  void pass(const Pass& pass) override {
    ++passes;
    together_.passes[rank_] = pass;
    together_.all_here.arrive_and_wait();
    const auto receive = [&](std::span<Real> to, std::span<const Real> Pass::*from, int rank) {
      if (to.empty()) return;
      const std::span<const Real> sent = together_.passes[rank].*from;
      ASSERT_EQ(sent.size(), to.size());
      std::ranges::copy(sent, to.begin());
    };
    receive(pass.from_previous, &Pass::to_next, rank_ - 1);
    receive(pass.from_next, &Pass::to_previous, rank_ + 1);
    together_.all_here.arrive_and_wait();
  }

  Index passes = 0;

 private:
  Together& together_;
  int rank_;
};

// 2 layers of some 40,000 parameters each: several chunks, whose borders lie inside matrices.
TrainOptions shared_options(const nlohmann::json& more) {
  nlohmann::json values = {{"layers", 2},    {"dim", 64},  {"context", 16}, {"lr", 1e-3},
                           {"dropout", 0.1}, {"batch", 9}, {"steps", 5},    {"warmup", 2}};
  values.update(more);
  return tiny_options(values);
}

// Calls `work` on all ranks, each in a thread of this process; returns its results.
template <class Work>
auto on_ranks(int size, const Work& work) {
  Together together(size);
  std::vector<decltype(work(std::declval<ThreadRanks&>()))> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      set_threads(1 + rank % 2);
      ThreadRanks ranks(together, rank);
      results[rank] = work(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Ranks have no shard of their own, one or several. A process cuts the products of its ops where it
// has one task only. The task of a rank may be one of several: it is not cut then, which would add
// its numbers up in another order.
TEST(SharedTraining, GivesTheBitsOfOneProcess) {
  const auto one_each = [](const char* attention) -> nlohmann::json {
    return {{"heads", 4}, {"context", 64}, {"batch", 16}, {"shards", 2}, {"attention", attention}};
  };
  const std::vector<std::pair<int, nlohmann::json>> cases = {
      {2, {{"shards", 4}}}, {2, {{"shards", 4}, {"precision", "bf16"}}},
      {3, {{"shards", 4}}}, {4, {{"shards", 4}, {"accumulate", 2}}},
      {5, {{"shards", 9}}}, {4, {{"shards", 2}, {"accumulate", 2}}},
      {3, {{"shards", 1}}}, {3, {{"shards", 4}, {"optimizer", "muon"}}},
      {2, one_each("mla")}, {2, one_each("delta")}};
  for (const auto& [size, settings] : cases) {
    SCOPED_TRACE(settings.dump());
    const TrainOptions options = shared_options(settings);
    const TinyTraining one = train_tiny(options, kSharedVocabulary, alone(), true);
    const auto work = [&, size = size](ThreadRanks& ranks) {
      TinyTraining result = train_tiny(options, kSharedVocabulary, ranks, true);
      EXPECT_GE(ranks.passes, options.steps * (3 + 2 * (size - 1))) << "three chunks or more";
      return result;
    };
    for (const TinyTraining& rank : on_ranks(size, work)) {
      EXPECT_TRUE(rank.weights == one.weights);
      EXPECT_EQ(rank.last.loss, one.last.loss);
      EXPECT_EQ(rank.last.gradient_norm, one.last.gradient_norm);
      EXPECT_EQ(rank.evaluation.loss, one.evaluation.loss);
      EXPECT_EQ(rank.evaluation.accuracy, one.evaluation.accuracy);
    }
  }
}

TEST(SharedEvaluation, TellsAllRanksWhatOneFinds) {
  LanguageModel model = tiny_model(shared_options({{"shards", 1}}), kSharedVocabulary);
  model.parameters().all_values().front() = std::numeric_limits<Real>::infinity();
  std::vector<std::int32_t> tokens(1000, 1);  // of which the last rank has the only 0
  tokens[990] = 0;
  const auto errors = on_ranks(3, [&](ThreadRanks& ranks) {
    try {
      evaluate(model, tokens, {.ranks = &ranks});
    } catch (const NonFiniteError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("model.embed_tokens.weight is inf at element 0"), error.npos) << error;
}

}  // namespace
}  // namespace headcount
