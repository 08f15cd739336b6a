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

// A token's gate weakens what came before it, not its own row.
TEST(Fox, LetsAGateWeakenEarlierTokensOnly) {
  LayerConfig config = small_config("fox");
  config.dim = 1;
  set(config, "heads", 1);
  set(config, "head-dim", 1);
  set(config, "output-projection", false);
  Layer layer = with_gates(config, 0);
  for (const char* const name : {"q_proj.weight", "f_proj.bias"}) layer.weight(name)[0] = 0;
  layer.weight("v_proj.weight")[0] = 1;
  // Gates of 1/2 and equal scores: weights 1, 1/2, 1/4, .. from the newest token back.
  const Values y = layer.forward({7, 3, 5}, 1);
  EXPECT_NEAR(static_cast<double>(y[0]), 7, 1e-5);
  EXPECT_NEAR(static_cast<double>(y[1]), (3 + 7 / 2.0) / (1 + 1 / 2.0), 1e-5);
  EXPECT_NEAR(static_cast<double>(y[2]), (5 + 3 / 2.0 + 7 / 4.0) / (1 + 1 / 2.0 + 1 / 4.0), 1e-5);
}

TEST(Fox, StartsWithGatesOfOneHalf) {
  ParameterStore store;
  make_attention(store, "a", resolved(small_config("fox")), {});
  store.allocate();
  store.initialize(7);
  for (const Real bias : store.value(store.find("a.f_proj.bias"))) EXPECT_EQ(bias, 0);
}

TEST(Fox, KeepsGatesUnroundedInACacheOfAnyType) {
  LayerConfig config = small_config("fox");
  set(config, "kv-heads", 1);
  const AttentionPlan plan = resolved(config);
  for (const CacheType type : {CacheType::real, CacheType::f16, CacheType::bf16, CacheType::int8}) {
    LayerCache cache = make_cache(plan, {.capacity = 9, .rounding = type});
    EXPECT_EQ(cache.bytes(), 9 * (2 * row_bytes(type, 4) + 2 * Index{sizeof(Real)}));
    EXPECT_FALSE(cache.rows("gates").converts());
  }
}

}  // namespace
}  // namespace headcount
