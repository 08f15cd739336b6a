// The indexer of csa, dsa and bsa: what trains it, and what its loss leaves alone.
#include <gtest/gtest.h>

#include <limits>

#include "nn/attention/test_layer.h"

namespace headcount {
namespace {

class AnIndexer : public testing::TestWithParam<const char*> {
 protected:
  // A token reads `topk` rows: of two tokens each in csa, of one in dsa, or blocks of
  // two in bsa.
  static LayerConfig config(double index_loss, Index topk = 3) {
    LayerConfig config = small_config(GetParam());
    config.max_positions = 20;
    set(config, "index-topk", topk);
    if (config.kind == "csa") {
      set(config, "compress", 2);
      set(config, "window", 4);
    }
    if (config.kind == "bsa") set(config, "index-block", 2);
    config.given.put("index-loss", index_loss);
    return config;
  }
  const Values x = normal_values(0, 20 * 12);
};
INSTANTIATE_TEST_SUITE_P(Kinds, AnIndexer, testing::Values("csa", "dsa", "bsa"),
                         [](const auto& kind) { return std::string(kind.param); });

// Loss of the layer's indexer, of which it computes the gradients, too.
double index_loss_of(Layer& layer, const Values& x, Values* of_input = nullptr) {
  Tape tape(&layer.store);
  layer.store.clear_gradients();
  const Var input = tape.leaf({1, 20, 12}, x);
  std::vector<Var> losses;
  Memory memory;
  memory.collect_losses_in(losses);
  layer.attention->forward(input, memory);
  if (losses.empty()) return 0;
  EXPECT_EQ(losses.size(), 1u);
  tape.backward(losses.front());
  if (of_input != nullptr) *of_input = copy(input.gradient());
  return static_cast<double>(losses.front().item());
}

// Expects that the gradients of the layer's indexer are not all 0, or are, and those of the other
// parameters.
void expect_trained(const Layer& layer, bool indexer, bool others) {
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    const std::string& name = layer.store.name({i});
    const bool any = std::ranges::any_of(layer.store.gradient({i}), [](Real g) { return g != 0; });
    EXPECT_EQ(any, name.find("indexer") != name.npos ? indexer : others) << name;
  }
}

TEST_P(AnIndexer, IsTrainedByItsLossAloneWhichTrainsNothingElse) {
  Layer layer(config(1)), half(config(0.5)), without(config(0));
  Values of_input;
  const double loss = index_loss_of(layer, x, &of_input);
  EXPECT_GT(loss, 0);
  EXPECT_TRUE(of_input.empty());
  expect_trained(layer, true, false);
  EXPECT_NEAR(index_loss_of(half, x), loss / 2, 1e-6);
  EXPECT_EQ(index_loss_of(without, x), 0);
  layer.forward_and_backward(x, 1);
  expect_trained(layer, false, true);
}

// A choice of more rows than there are is one of all of them, in memory and in the loss.
TEST_P(AnIndexer, MayPickMoreRowsThanThereAre) {
  Layer of_all(config(1, 20)), of_more(config(1, std::numeric_limits<std::int32_t>::max()));
  EXPECT_EQ(index_loss_of(of_more, x), index_loss_of(of_all, x));
  EXPECT_EQ(of_more.forward(x, 1), of_all.forward(x, 1));
}

}  // namespace
}  // namespace headcount
