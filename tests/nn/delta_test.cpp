// The gated delta layer of Qwen3-Next: its cache, initial values and refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/base/error.h"
#include "nn/layer_config.h"
#include "nn/test_layer.h"

namespace headcount {
namespace {

LayerConfig delta_config() { return small_config("delta"); }

std::string refusal(const LayerConfig& config) {
  try {
    Layer layer(config);
  } catch (const ShapeError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Delta, RefusesWhatOnlyAttentionHas) {
  LayerConfig window = delta_config(), both_ways = delta_config();
  set(window, "window", 4);
  both_ways.causal = false;
  EXPECT_NE(refusal(window).find("`window`"), std::string::npos) << refusal(window);
  EXPECT_NE(refusal(both_ways).find("causal"), std::string::npos) << refusal(both_ways);
}

TEST(Delta, RefusesKeyHeadsThatDoNotDivideTheHeads) {
  LayerConfig config = delta_config();
  set(config, "key-heads", 3);
  EXPECT_NE(refusal(config).find("`key-heads` 3 does not divide `value-heads` 2"),
            std::string::npos);
}

TEST(Delta, KnowsTheOrderOfItsTokens) {
  LayerConfig config = delta_config();
  config.rotary = false;
  const Layer layer(config);
  Values x = normal_values(0, 3 * 12);
  const Values y = layer.forward(x, 1);
  std::swap_ranges(x.begin(), x.begin() + 12, x.begin() + 12);
  const Values swapped = layer.forward(x, 1);
  EXPECT_GT(difference(std::span(y).last(12), std::span(swapped).last(12)), 1e-3);
}

TEST(Delta, StartsAsTransformersStartsIt) {
  LayerConfig config = delta_config();
  set(config, "heads", 400);
  ParameterStore store;
  make_attention(store, "a", resolved(config), {});
  store.allocate();
  store.initialize(7);
  double mean = 0;
  for (const Real a_log : store.value(store.find("a.A_log"))) {
    const double a = std::exp(static_cast<double>(a_log));
    EXPECT_GT(a, 0);
    EXPECT_LE(a, 16.001);
    mean += a / 400;
  }
  EXPECT_NEAR(mean, 8, 4 * 16 / std::sqrt(12.0 * 400));  // uniform, within four deviations
  for (const Real bias : store.value(store.find("a.dt_bias"))) EXPECT_EQ(bias, 1);
}

TEST(Delta, LetsMatricesAloneDecay) {
  const Layer layer(delta_config());
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    EXPECT_EQ(layer.store.decays({i}), layer.store.name({i}).find("_proj") != std::string::npos)
        << layer.store.name({i});
  }
}

TEST(Delta, KeepsAsMuchOfALongTextAsOfAShortOne) {
  const AttentionPlan config = resolved(delta_config());
  // Two heads of 4 x 4, and three inputs of the convolution of 3 x 8 channels.
  EXPECT_EQ(make_cache(config, {.capacity = 9}).bytes(),
            (2 * 4 * 4 + 3 * 3 * 8) * static_cast<Index>(sizeof(Real)));
  EXPECT_EQ(make_cache(config, {.capacity = 9}).bytes(),
            make_cache(config, {.capacity = 90000, .type = CacheType::int8}).bytes());
}

}  // namespace
}  // namespace headcount
