// The gated delta layer of Qwen3-Next: its cache, initial values and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/base/error.h"
#include "models/checkpoint/safetensors.h"
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

// State and inputs of the convolution after T tokens, computed by transformers.
TEST(Delta, KeepsWhatTransformersKeeps) {
  const Safetensors file =
      Safetensors::open(std::string(HEADCOUNT_FIXTURE_FOLDER) + "/beyond_delta.safetensors");
  const auto json = nlohmann::json::parse(file.metadata().at("config"));
  LayerConfig config;
  config.kind = "delta";
  config.dim = json.at("d_model");
  set(config, "heads", json.at("n_heads").get<Index>());
  set(config, "head-dim", json.at("head_dim").get<Index>());
  set(config, "v-dim", json.at("v_head_dim").get<Index>());
  set(config, "conv-taps", json.at("conv").get<Index>());
  const AttentionPlan plan = resolved(config);
  ParameterStore parameters;
  const auto layer = make_attention(parameters, "w", plan, {});
  parameters.allocate();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    read_into(file.at(parameters.name({i})), parameters.value({i}));
  const TensorView& x = file.at("x");
  Values input(x.element_count());
  read_into(x, input);
  const Index batch = x.shape[0], length = x.shape[1];
  LayerCache cache = make_cache(plan, {.sequences = batch, .capacity = length});
  Tape tape(std::as_const(parameters));
  Memory memory(cache, length);
  layer->forward(tape.constant({batch, length, config.dim}, input), memory);

  const double tolerance = sizeof(Real) == sizeof(double) ? 1e-9 : 1e-5;
  const std::vector<double> state = file.at("cache.state").to_doubles();
  ASSERT_EQ(cache.state("state").size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i)
    EXPECT_NEAR(static_cast<double>(cache.state("state")[i]), state[i], tolerance);
  // [B, channels, 4]; later convolutions do not see the first of the four.
  const TensorView& conv = file.at("cache.conv");
  const std::vector<double> inputs = conv.to_doubles();
  const Index channels = conv.shape[1], taps = conv.shape[2];
  Index first = 0;
  for (const char* const name : {"q_inputs", "k_inputs", "v_inputs"}) {
    const std::span<const Real> kept = cache.state(name);
    const Index width = std::ssize(kept) / batch / (taps - 1);
    for (Index i = 0; i < std::ssize(kept); ++i) {
      const Index b = i / width / (taps - 1), tap = i / width % (taps - 1) + 1, c = i % width;
      EXPECT_NEAR(static_cast<double>(kept[static_cast<std::size_t>(i)]),
                  inputs[static_cast<std::size_t>((b * channels + first + c) * taps + tap)],
                  tolerance);
    }
    first += width;
  }
  EXPECT_EQ(first, channels);
}

}  // namespace
}  // namespace headcount
