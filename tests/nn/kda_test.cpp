// Kimi delta attention: its cache, initial values and refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/base/error.h"
#include "nn/layer_config.h"
#include "nn/test_layer.h"

namespace headcount {
namespace {

TEST(Kda, StartsAsItsAuthorsStartIt) {
  LayerConfig config = small_config("kda");
  set(config, "heads", 400);
  ParameterStore store;
  make_attention(store, "a", resolved(config), {});
  store.allocate();
  store.initialize(7);
  double mean = 0, mean_log = 0;
  for (const Real a_log : store.value(store.find("a.A_log"))) {
    const double a = std::exp(static_cast<double>(a_log));
    EXPECT_GE(a, 0.999);
    EXPECT_LE(a, 16.001);
    mean += a / 400;
  }
  EXPECT_NEAR(mean, 8.5, 4 * 15 / std::sqrt(12.0 * 400));  // uniform, within four deviations
  const auto biases = store.value(store.find("a.dt_bias"));
  const auto count = static_cast<double>(biases.size());
  for (const Real bias : biases) {
    const double step = std::log1p(std::exp(static_cast<double>(bias)));
    EXPECT_GE(step, 0.000999);
    EXPECT_LE(step, 0.1001);
    mean_log += std::log10(step) / count;
  }
  EXPECT_NEAR(mean_log, -2, 4 * 2 / std::sqrt(12 * count));
}

TEST(Kda, HasABiasInItsGateUnlessItIsOff) {
  LayerConfig config = small_config("kda");
  const Index with = Layer(config).store.element_count();
  set(config, "gate-bias", "off");
  EXPECT_EQ(Layer(config).store.element_count(), with - 2 * 4);
  config.bias = true;
  Layer biased(config);
  EXPECT_NO_THROW(biased.weight("q_proj.bias"));
  EXPECT_THROW(biased.weight("g_b_proj.bias"), ShapeError) << "the layer has biases, the gate none";
}

}  // namespace
}  // namespace headcount
