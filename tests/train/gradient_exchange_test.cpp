// Ranks that are threads of this process: training shared out over them, without MPI.
#include "train/gradient_exchange.h"

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

constexpr Index kExchangedVocabulary = 20;

// What the ranks of a test see of each other.
struct Together {
  explicit Together(int size)
      : passes(static_cast<std::size_t>(size)), items(passes.size()), all_here(size) {}
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
    at(together_.items, rank_) = bytes.data();
    together_.all_here.arrive_and_wait();
    const auto count = static_cast<Index>(bytes.size() / item_bytes);
    for (int other = 0; other < size(); ++other) {
      const Part part = part_of(count, other, size());
      const std::size_t begin = static_cast<std::size_t>(part.first) * item_bytes,
                        length = static_cast<std::size_t>(part.size()) * item_bytes;
      if (other != rank_ && length > 0)
        std::memcpy(bytes.data() + begin, at(together_.items, other) + begin, length);
    }
    together_.all_here.arrive_and_wait();
  }

  void pass(const Pass& pass) override {
    ++passes;
    at(together_.passes, rank_) = pass;
    together_.all_here.arrive_and_wait();
    const auto receive = [&](std::span<Real> to, std::span<const Real> Pass::*from, int rank) {
      if (to.empty()) return;
      const std::span<const Real> sent = at(together_.passes, rank).*from;
      ASSERT_EQ(sent.size(), to.size());
      std::ranges::copy(sent, to.begin());
    };
    receive(pass.from_previous, &Pass::to_next, rank_ - 1);
    receive(pass.from_next, &Pass::to_previous, rank_ + 1);
    together_.all_here.arrive_and_wait();
  }

  Index passes = 0;

 private:
  template <class T>
  static T& at(std::vector<T>& all, int rank) {
    return all[static_cast<std::size_t>(rank)];
  }
  Together& together_;
  int rank_;
};

// 2 layers of some 40,000 parameters each: several chunks, whose borders lie inside matrices.
TrainOptions options_of(const nlohmann::json& more) {
  Given given(training_settings(), {{"layers", 2},
                                    {"dim", 64},
                                    {"context", 16},
                                    {"dropout", 0.1},
                                    {"batch", 9},
                                    {"steps", 5},
                                    {"warmup", 2}});
  given.put(more);
  return resolve_training(given);
}

// Calls `work` on all ranks, each in a thread of this process; returns its results.
template <class Work>
auto on_ranks(int size, const Work& work) {
  Together together(size);
  std::vector<decltype(work(std::declval<ThreadRanks&>()))> results(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      set_threads(1 + rank % 2);
      ThreadRanks ranks(together, rank);
      results[static_cast<std::size_t>(rank)] = work(ranks);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

// Ranks have no shard of their own, one or several. A process cuts the products of its ops where it
// has one task only. The task of a rank may be one of several: it is not cut then, which would add
// its numbers up in another order.
TEST(SharedTraining, GivesTheBitsOfOneProcess) {
  const nlohmann::json one_each = {{"heads", 4}, {"context", 64}, {"batch", 16}, {"shards", 2}};
  nlohmann::json mla = one_each, delta = one_each;
  mla["attention"] = "mla";
  delta["attention"] = "delta";
  std::vector<std::pair<int, TrainOptions>> cases;
  for (const auto& [ranks, settings] : {std::pair<int, nlohmann::json>{2, {{"shards", 4}}},
                                        {3, {{"shards", 4}}},
                                        {4, {{"shards", 4}, {"accumulate", 2}}},
                                        {5, {{"shards", 9}}},
                                        {4, {{"shards", 2}, {"accumulate", 2}}},
                                        {3, {{"shards", 1}}},
                                        {3, {{"shards", 4}, {"optimizer", "muon"}}},
                                        {2, mla},
                                        {2, delta}})
    cases.emplace_back(ranks, options_of(settings));
  cases.push_back(cases.front());
  cases.back().second.precision = Precision::bf16;
  for (const auto& drawn : cases) {
    const auto& options = drawn.second;
    SCOPED_TRACE(to_json(options).dump());
    const TinyTraining one = train_tiny(options, kExchangedVocabulary, alone(), true);
    const Index chunks =
        (std::ssize(one.weights) + GradientExchange::kChunk - 1) / GradientExchange::kChunk;
    ASSERT_GE(chunks, 3);
    const auto work = [&](ThreadRanks& ranks) {
      TinyTraining result = train_tiny(options, kExchangedVocabulary, ranks, true);
      EXPECT_EQ(ranks.passes, options.steps * (chunks + 2 * (ranks.size() - 1)));
      return result;
    };
    for (const TinyTraining& rank : on_ranks(drawn.first, work)) {
      EXPECT_TRUE(rank.weights == one.weights);
      EXPECT_EQ(rank.last.loss, one.last.loss);
      EXPECT_EQ(rank.last.gradient_norm, one.last.gradient_norm);
      EXPECT_EQ(rank.evaluation.loss, one.evaluation.loss);
      EXPECT_EQ(rank.evaluation.accuracy, one.evaluation.accuracy);
    }
  }
}

TEST(SharedEvaluation, TellsAllRanksWhatOneFinds) {
  LanguageModel model(options_of({{"shards", 1}}).model, kExchangedVocabulary);
  model.initialize(1);
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

// An exchange can send what is complete while backward goes on.
TEST(GradientExchange, HearsOfTheGradientsOfTheLastLayerFirst) {
  const TrainOptions options = options_of({{"shards", 1}});
  const Tokens tokens = tiny_tokens(1000, kExchangedVocabulary);
  LanguageModel model(options.model, kExchangedVocabulary);
  model.initialize(1);
  Tape tape(&model.parameters());
  std::vector<std::string> order;
  tape.when_complete(
      [&](ParameterId parameter) { order.push_back(model.parameters().name(parameter)); });
  const auto length = static_cast<std::size_t>(options.model->context);
  const std::span<const std::int32_t> text = tokens;
  tape.backward(model.loss(tape, text.first(length), text.subspan(1, length), 1).cross_entropy);
  ASSERT_EQ(order.size(), model.parameters().size()) << "each once";
  const auto in_layer = [](const std::string& number) {
    return [number](const std::string& name) { return name.find(number) != std::string::npos; };
  };
  std::erase_if(order,
                [&](const auto& name) { return !in_layer(".0.")(name) && !in_layer(".1.")(name); });
  EXPECT_TRUE(std::ranges::is_partitioned(order, in_layer(".1."))) << "the last layer first";
}

}  // namespace
}  // namespace headcount
