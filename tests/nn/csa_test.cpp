// The indexer of csa: what trains it, and what its loss leaves alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nn/test_layer.h"

namespace headcount {
namespace {

LayerConfig csa(double index_loss) {
  LayerConfig config = small_config("csa");
  config.max_positions = 20;
  set(config, "compress", 2);
  set(config, "index-topk", 3);
  set(config, "window", 4);
  config.given.put("index-loss", index_loss);
  return config;
}

// Loss of the layer's indexer, of which `backward` computes the gradients if it is true.
double index_loss_of(Layer& layer, const Values& x, bool backward, Values* of_input = nullptr) {
  Tape tape(&layer.store);
  layer.store.clear_gradients();
  const Var input = tape.leaf({1, 20, 12}, x);
  std::vector<Var> losses;
  Memory memory;
  memory.collect_losses_in(losses);
  layer.attention->forward(input, memory);
  if (losses.empty()) return 0;
  EXPECT_EQ(losses.size(), 1u);
  if (backward) tape.backward(losses.front());
  if (of_input != nullptr) of_input->assign(input.gradient().begin(), input.gradient().end());
  return static_cast<double>(losses.front().item());
}

bool is_of_indexer(const std::string& name) { return name.find("indexer") != std::string::npos; }

TEST(IndexerOfCsa, IsAllThatItsLossTrains) {
  Layer layer(csa(1));
  Values of_input;
  EXPECT_GT(index_loss_of(layer, normal_values(0, 20 * 12), true, &of_input), 0);
  EXPECT_TRUE(of_input.empty());
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    const std::span<const Real> gradient = layer.store.gradient({i});
    const bool any = std::ranges::any_of(gradient, [](Real g) { return g != 0; });
    EXPECT_EQ(any, is_of_indexer(layer.store.name({i}))) << layer.store.name({i});
  }
}

TEST(IndexerOfCsa, LearnsToScoreRowsAsAttentionWeighsThem) {
  Layer layer(csa(1));
  const Values x = normal_values(0, 20 * 12);
  const double before = index_loss_of(layer, x, true);
  for (int step = 0; step < 300; ++step) {
    for (std::size_t i = 0; i < layer.store.size(); ++i) {
      if (!is_of_indexer(layer.store.name({i}))) continue;
      const std::span<Real> value = layer.store.value({i});
      const std::span<const Real> gradient = layer.store.gradient({i});
      for (std::size_t j = 0; j < value.size(); ++j) value[j] -= Real{0.5} * gradient[j];
    }
    index_loss_of(layer, x, true);
  }
  EXPECT_LT(index_loss_of(layer, x, false), before * 0.7);
}

TEST(IndexerOfCsa, HasALossInProportionToItsWeight) {
  Layer layer(csa(1)), half(csa(0.5));
  const Values x = normal_values(0, 20 * 12);
  EXPECT_NEAR(index_loss_of(half, x, false), index_loss_of(layer, x, false) / 2, 1e-6);
}

TEST(IndexerOfCsa, HasNoLossWithoutAWeight) {
  Layer layer(csa(0));
  EXPECT_EQ(index_loss_of(layer, normal_values(0, 20 * 12), false), 0);
}

TEST(IndexerOfCsa, GetsNoGradientFromTheLayersOutput) {
  Layer layer(csa(1));
  layer.forward_and_backward(normal_values(0, 20 * 12), 1);
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    if (!is_of_indexer(layer.store.name({i}))) continue;
    const std::span<const Real> gradient = layer.store.gradient({i});
    EXPECT_TRUE(std::ranges::all_of(gradient, [](Real g) { return g == 0; }))
        << layer.store.name({i});
  }
}

TEST(IndexerOfCsa, ChangesOutputsWhereRowsAreLeftOut) {
  LayerConfig all = csa(1);
  set(all, "index-topk", 10);
  const Values x = normal_values(0, 20 * 12);
  const Values picked = Layer(csa(1)).forward(x, 1), whole = Layer(all).forward(x, 1);
  // Tokens up to the seventh see three rows at most.
  EXPECT_TRUE(std::equal(picked.begin(), picked.begin() + 7 * 12, whole.begin()));
  EXPECT_NE(picked, whole);
}

}  // namespace
}  // namespace headcount
