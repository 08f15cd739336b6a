// The indexer of csa and dsa: what trains it, and what its loss leaves alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "nn/test_layer.h"

namespace headcount {
namespace {

struct Indexed {
  const char* kind;
  Index first_left_out;  // token that sees more rows than it reads
};

// A token reads three rows: of two tokens each in csa, of one in dsa.
class AnIndexer : public testing::TestWithParam<Indexed> {
 protected:
  static LayerConfig config(double index_loss) {
    LayerConfig config = small_config(GetParam().kind);
    config.max_positions = 20;
    set(config, "index-topk", 3);
    if (config.kind == "csa") {
      set(config, "compress", 2);
      set(config, "window", 4);
    }
    config.given.put("index-loss", index_loss);
    return config;
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, AnIndexer, testing::Values(Indexed{"csa", 7}, Indexed{"dsa", 3}),
                         [](const auto& kind) { return std::string(kind.param.kind); });

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

TEST_P(AnIndexer, IsAllThatItsLossTrains) {
  Layer layer(config(1));
  Values of_input;
  EXPECT_GT(index_loss_of(layer, normal_values(0, 20 * 12), true, &of_input), 0);
  EXPECT_TRUE(of_input.empty());
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    const std::span<const Real> gradient = layer.store.gradient({i});
    const bool any = std::ranges::any_of(gradient, [](Real g) { return g != 0; });
    EXPECT_EQ(any, is_of_indexer(layer.store.name({i}))) << layer.store.name({i});
  }
}

TEST_P(AnIndexer, LearnsToScoreRowsAsAttentionWeighsThem) {
  Layer layer(config(1));
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

TEST_P(AnIndexer, HasALossInProportionToItsWeight) {
  Layer layer(config(1)), half(config(0.5));
  const Values x = normal_values(0, 20 * 12);
  EXPECT_NEAR(index_loss_of(half, x, false), index_loss_of(layer, x, false) / 2, 1e-6);
}

TEST_P(AnIndexer, HasNoLossWithoutAWeight) {
  Layer layer(config(0));
  EXPECT_EQ(index_loss_of(layer, normal_values(0, 20 * 12), false), 0);
}

TEST_P(AnIndexer, GetsNoGradientFromTheLayersOutput) {
  Layer layer(config(1));
  layer.forward_and_backward(normal_values(0, 20 * 12), 1);
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    if (!is_of_indexer(layer.store.name({i}))) continue;
    const std::span<const Real> gradient = layer.store.gradient({i});
    EXPECT_TRUE(std::ranges::all_of(gradient, [](Real g) { return g == 0; }))
        << layer.store.name({i});
  }
}

TEST_P(AnIndexer, ChangesOutputsWhereRowsAreLeftOut) {
  LayerConfig all = config(1);
  set(all, "index-topk", 20);
  const Values x = normal_values(0, 20 * 12);
  const Values picked = Layer(config(1)).forward(x, 1), whole = Layer(all).forward(x, 1);
  EXPECT_TRUE(
      std::equal(picked.begin(), picked.begin() + GetParam().first_left_out * 12, whole.begin()));
  EXPECT_NE(picked, whole);
}

// A choice of more rows than there are is one of all of them, in memory and in the loss.
TEST_P(AnIndexer, MayPickMoreRowsThanThereAre) {
  LayerConfig all = config(1), more = config(1);
  set(all, "index-topk", 20);
  set(more, "index-topk", std::numeric_limits<std::int32_t>::max());
  const Values x = normal_values(0, 20 * 12);
  Layer of_all(all), of_more(more);
  EXPECT_EQ(index_loss_of(of_more, x, true), index_loss_of(of_all, x, true));
  EXPECT_EQ(of_more.forward(x, 1), of_all.forward(x, 1));
}

TEST(IndexerOfDsa, LeavesOutTokensBeyondAWindow) {
  LayerConfig windowed = small_config("dsa"), narrow = small_config("dsa");
  for (LayerConfig* config : {&windowed, &narrow}) {
    config->max_positions = 20;
    set(*config, "index-topk", 3);
  }
  set(windowed, "window", 3);
  set(narrow, "window", 3);
  set(narrow, "index-topk", 20);
  const Values x = normal_values(0, 20 * 12);
  // Three tokens of three are read, whatever their scores.
  EXPECT_LT(difference(Layer(windowed).forward(x, 1), Layer(narrow).forward(x, 1)), kRounding);
  set(windowed, "window", 5);
  set(narrow, "window", 5);
  EXPECT_GT(difference(Layer(windowed).forward(x, 1), Layer(narrow).forward(x, 1)), 0.01);
}

}  // namespace
}  // namespace headcount
