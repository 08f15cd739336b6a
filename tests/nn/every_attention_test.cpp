// What holds for every attention.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "nn/kinds_with_scores.h"
#include "nn/random_input.h"

namespace headcount {
namespace {

// Properties of every attention.
class EveryAttention : public testing::TestWithParam<const AttentionKind*> {
 protected:
  std::string_view kind() const { return GetParam()->name; }
  bool attends() const { return GetParam()->attends; }
};
INSTANTIATE_TEST_SUITE_P(Registry, EveryAttention, testing::ValuesIn(attention_kinds()), name_of);

TEST_P(EveryAttention, CausalPrefixDoesNotDependOnWhatFollows) {
  EXPECT_TRUE(rc::check([this] {
    LayerConfig config = random_config(kind(), 2 * random_heads());
    config.causal = true;
    const Layer layer(config);
    const Index length = *rc::gen::inRange<Index>(1, 81),
                kept = *rc::gen::inRange<Index>(0, length);
    const Values x = normal_values(0, length * config.dim);
    Values changed = normal_values(7, length * config.dim);
    std::copy_n(x.begin(), kept * config.dim, changed.begin());
    Values y = layer.forward(x, 1), y_changed = layer.forward(changed, 1);
    RC_ASSERT(y != y_changed);
    y.resize(static_cast<std::size_t>(kept * config.dim));
    y_changed.resize(y.size());
    RC_ASSERT(y == y_changed);
  }));
}

// Name of the output projection, which is the last one that a layer adds.
std::string output_projection(const Layer& layer) {
  const std::string name = layer.store.name({layer.store.size() - 1});
  return name.substr(2, name.rfind('.') - 2);
}

TEST_P(EveryAttention, TokensThatAreMaskedDoNotReachOthersAndLeaveTheOutputBiasWhereAllAre) {
  LayerConfig small = small_config(kind());
  small.bias = true;
  Layer small_layer(small);
  const Values small_x = normal_values(0, 5 * 12);
  if (!attends() || sees_all_before(*GetParam())) {
    EXPECT_THROW(small_layer.forward(small_x, 1, Mask(5, 1)), ShapeError);
    EXPECT_THROW(small_layer.forward(small_x, 1, Mask(5, 0)), ShapeError);
    return;
  }
  const Values of_padding = small_layer.forward(small_x, 1, Mask(5, 0));
  const std::span<const Real> bias = small_layer.weight(output_projection(small_layer) + ".bias");
  for (std::size_t i = 0; i < of_padding.size(); ++i) EXPECT_EQ(of_padding[i], bias[i % 12]);
  EXPECT_TRUE(rc::check([this] {
    const LayerConfig config = random_config(kind(), 2 * random_heads());
    const Layer layer(config);
    const Input input;
    const Index tokens = input.batch * input.length;
    const auto mask = *rc::gen::container<Mask>(static_cast<std::size_t>(tokens),
                                                rc::gen::inRange<std::uint8_t>(0, 2));
    const Values x = input.values(config.dim);
    Values changed = normal_values(7, std::ssize(x));
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (mask[i / static_cast<std::size_t>(config.dim)] != 0) changed[i] = x[i];
    }
    const Values y = layer.forward(x, input.batch, mask);
    const Values y_changed = layer.forward(changed, input.batch, mask);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (mask[i / static_cast<std::size_t>(config.dim)] != 0) RC_ASSERT(y[i] == y_changed[i]);
    }
  }));
}

TEST_P(EveryAttention, WithoutOutputProjectionGivesTheHeadsSideBySide) {
  LayerConfig config = small_config(kind());
  set(config, "output-projection", false);
  const Layer layer(config);
  EXPECT_EQ(layer.forward(normal_values(0, 5 * 12), 1).size(), 5u * 2 * 4);
  const std::string output = output_projection(Layer(small_config(kind())));
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    EXPECT_EQ(layer.store.name({i}).find(output), std::string::npos);
  }
}

TEST_P(EveryAttention, WhoseGateStandsHalfOpenGivesHalf) {
  LayerConfig config = small_config(kind());
  const Values x = normal_values(0, 9 * 12);
  Values half = Layer(config).forward(x, 1);
  for (Real& value : half) value /= 2;
  set(config, "gate", true);
  Layer gated(config);
  EXPECT_GT(difference(half, gated.forward(x, 1)), 0.1);
  std::ranges::fill(gated.weight("gate_proj.weight"), Real{0});
  EXPECT_LT(difference(half, gated.forward(x, 1)), kRounding);
}

TEST_P(EveryAttention, DropsWeightsOnlyWhileTraining) {
  LayerConfig config = small_config(kind());
  const Layer layer(config);
  const Values x = normal_values(0, 9 * 12);
  EXPECT_EQ(layer.forward(x, 1, {}, Real{0}), layer.forward(x, 1));
  EXPECT_EQ(layer.forward(x, 1, {}, Real{0.5}) != layer.forward(x, 1), attends())
      << "a state has no weights to drop";
}

// A recurrent state, forget gates, blocks of tokens and an indexer depend on the order of tokens,
// even without positions.
std::vector<const AttentionKind*> kinds_with_rotation_alone() {
  std::vector<const AttentionKind*> kinds = kinds_with_scores();
  std::erase_if(kinds,
                [](const AttentionKind* kind) { return !kind->rotates || sees_all_before(*kind); });
  return kinds;
}
class EveryAttentionWithRotation : public EveryAttention {};
INSTANTIATE_TEST_SUITE_P(Registry, EveryAttentionWithRotation,
                         testing::ValuesIn(kinds_with_rotation_alone()), name_of);

TEST_P(EveryAttentionWithRotation, SeesPositionsThroughItAlone) {
  // Without a mask and without positions, attention does not know the order of its tokens.
  LayerConfig config = small_config(kind());
  config.causal = false;
  const Values x = normal_values(0, 9 * 12);
  Values reversed;
  for (Index t = 8; t >= 0; --t) {
    reversed.insert(reversed.end(), x.begin() + 12 * t, x.begin() + 12 * (t + 1));
  }
  const auto outputs_agree = [&](const Layer& layer) {
    const Values y = layer.forward(x, 1), z = layer.forward(reversed, 1);
    double worst = 0;
    for (std::size_t t = 0; t < 9; ++t) {
      worst = std::max(worst, difference(std::span(y).subspan(12 * t, 12),
                                         std::span(z).subspan(12 * (8 - t), 12)));
    }
    return worst < kRounding;
  };
  EXPECT_FALSE(outputs_agree(Layer(config)));
  config.rotary = false;
  EXPECT_TRUE(outputs_agree(Layer(config)));
}

}  // namespace
}  // namespace headcount
