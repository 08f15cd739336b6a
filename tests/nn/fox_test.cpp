// Forgetting attention: what its gates do, and what its cache keeps of them.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/base/error.h"
#include "nn/layer_config.h"
#include "nn/test_layer.h"

namespace headcount {
namespace {

Layer with_gates(LayerConfig config, Real bias) {
  Layer layer(config);
  std::ranges::fill(layer.weight("f_proj.weight"), Real{0});
  std::ranges::fill(layer.weight("f_proj.bias"), bias);
  return layer;
}

TEST(Fox, WithOpenGatesIsAttentionWithoutPositions) {
  LayerConfig config = small_config("mha");
  config.rotary = false;
  const Values x = normal_values(0, 2 * 9 * 12);
  const Values y = with_gates(small_config("fox"), 40).forward(x, 2);
  EXPECT_LT(difference(y, Layer(config).forward(x, 2)), kRounding);
}

TEST(Fox, WithClosedGatesReadsTheTokenItself) {
  LayerConfig config = small_config("mha");
  set(config, "window", 1);
  const Values x = normal_values(0, 2 * 9 * 12);
  const Values y = with_gates(small_config("fox"), -1e4).forward(x, 2);
  EXPECT_LT(difference(y, Layer(config).forward(x, 2)), kRounding);
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
