// Forgetting attention: what its gates do.
#include <gtest/gtest.h>

#include "nn/test_layer.h"

namespace headcount {
namespace {

Layer with_gates(LayerConfig config, Real bias) {
  Layer layer(config);
  std::ranges::fill(layer.weight("f_proj.weight"), Real{0});
  std::ranges::fill(layer.weight("f_proj.bias"), bias);
  return layer;
}

TEST(Fox, WithOpenGatesIsAttentionWithoutPositionsAndWithClosedOnesReadsTheTokenItself) {
  for (const auto& [bias, window] : {std::pair<Real, Index>{40, 0}, {-1e4, 1}}) {
    LayerConfig config = small_config("mha");
    config.rotary = false;
    set(config, "window", window);
    const Values x = normal_values(0, 2 * 9 * 12);
    const Values y = with_gates(small_config("fox"), bias).forward(x, 2);
    EXPECT_LT(difference(y, Layer(config).forward(x, 2)), kRounding) << bias;
  }
}

TEST(Fox, StartsWithGatesOfOneHalf) {
  ParameterStore store;
  make_attention(store, "a", resolved(small_config("fox")), {});
  store.allocate();
  store.initialize(7);
  for (const Real bias : store.value(store.find("a.f_proj.bias"))) EXPECT_EQ(bias, 0);
}

}  // namespace
}  // namespace headcount
