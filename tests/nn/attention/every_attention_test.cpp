// What holds for every attention, and attentions that are each other under other settings.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <utility>

#include "nn/attention/kinds_with_scores.h"
#include "nn/attention/random_layer.h"

namespace headcount {
namespace {

class EveryAttention : public testing::TestWithParam<const AttentionKind*> {
 protected:
  const AttentionKind& kind() const { return *GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Registry, EveryAttention, testing::ValuesIn(attention_kinds()), name_of);

TEST_P(EveryAttention, CausalPrefixDoesNotDependOnWhatFollows) {
  EXPECT_TRUE(rc::check([this] {
    const LayerConfig config = random_layer(kind());
    const Layer layer(config);
    const Index length = *rc::gen::inRange<Index>(1, 81),
                kept = *rc::gen::inRange<Index>(0, length);
    const Values x = normal_values(0, length * config.dim);
    Values changed = normal_values(7, length * config.dim);
    std::copy_n(x.begin(), kept * config.dim, changed.begin());
    Values y = layer.forward(x, 1), y_changed = layer.forward(changed, 1);
    RC_ASSERT(y != y_changed);
    y.resize(y.size() / static_cast<std::size_t>(length) * static_cast<std::size_t>(kept));
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
  LayerConfig small = small_config(kind().name);
  small.bias = true;
  Layer small_layer(small);
  const Values small_x = normal_values(0, 5 * 12);
  if (kind().needs_causal) {
    EXPECT_THROW(small_layer.forward(small_x, 1, Mask(5, 1)), ShapeError);
    EXPECT_THROW(small_layer.forward(small_x, 1, Mask(5, 0)), ShapeError);
    return;
  }
  const Values of_padding = small_layer.forward(small_x, 1, Mask(5, 0));
  const std::span<const Real> bias = small_layer.weight(output_projection(small_layer) + ".bias");
  for (std::size_t i = 0; i < of_padding.size(); ++i) EXPECT_EQ(of_padding[i], bias[i % 12]);
  EXPECT_TRUE(rc::check([this] {
    LayerConfig config = random_layer(kind(), {"canon", "output-projection"});
    if (resolved(config).window == 0) config.causal = *rc::gen::arbitrary<bool>();
    const Layer layer(config);
    const Index batch = *rc::gen::inRange<Index>(1, 4), length = *rc::gen::inRange<Index>(1, 81);
    const auto mask = *rc::gen::container<Mask>(static_cast<std::size_t>(batch * length),
                                                rc::gen::inRange<std::uint8_t>(0, 2));
    const Values x = normal_values(0, batch * length * config.dim);
    Values changed = normal_values(7, std::ssize(x));
    const auto is_masked = [&](std::size_t i) {
      return mask[i / static_cast<std::size_t>(config.dim)] == 0;
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!is_masked(i)) changed[i] = x[i];
    }
    const Values y = layer.forward(x, batch, mask), y_changed = layer.forward(changed, batch, mask);
    for (std::size_t i = 0; i < y.size(); ++i) {
      if (!is_masked(i)) RC_ASSERT(y[i] == y_changed[i]);
    }
  }));
}

// An indexer changes outputs only where it leaves out rows.
TEST_P(EveryAttention, ReadsEachOfItsWeights) {
  LayerConfig config = small_config(kind().name);
  set(config, "gate", true);
  set(config, "qk-norm", kind().no_qk_norm.empty());
  Layer layer(config);
  const Values x = normal_values(0, 9 * 12), y = layer.forward(x, 1);
  for (std::size_t i = 0; i < layer.store.size(); ++i) {
    const std::string& name = layer.store.name({i});
    if (name.find("indexer") != name.npos) continue;
    Real& weight = layer.store.value({i}).front();
    const Real before = std::exchange(weight, weight + 1);
    EXPECT_NE(layer.forward(x, 1), y) << name;
    weight = before;
  }
}

TEST_P(EveryAttention, WithoutOutputProjectionGivesTheHeadsSideBySide) {
  LayerConfig config = small_config(kind().name);
  set(config, "output-projection", false);
  EXPECT_EQ(Layer(config).forward(normal_values(0, 5 * 12), 1).size(), 5u * 2 * 4);
}

TEST_P(EveryAttention, DropsWeightsOnlyWhileTraining) {
  const Layer layer(small_config(kind().name));
  const Values x = normal_values(0, 9 * 12);
  EXPECT_EQ(layer.forward(x, 1, {}, Real{0}), layer.forward(x, 1));
  EXPECT_EQ(layer.forward(x, 1, {}, Real{0.5}) != layer.forward(x, 1), kind().attends)
      << "a state has no weights to drop";
}

// Without a mask and without positions, attention does not know the order of its tokens.
TEST(AttentionWithRotation, SeesPositionsThroughItAlone) {
  const Values x = normal_values(0, 9 * 12);
  const auto reversed = [](const Values& tokens) {
    const std::size_t width = tokens.size() / 9;
    Values last_first;
    for (std::size_t t = 9; t-- > 0;)
      last_first.insert(last_first.end(), &tokens[t * width], &tokens[t * width] + width);
    return last_first;
  };
  for (const AttentionKind* kind : kinds_with_scores()) {
    // Blocks of tokens and an indexer depend on the order, too.
    if (!kind->rotates || kind->needs_causal) continue;
    LayerConfig config = small_config(kind->name);
    config.causal = false;
    for (const bool rotary : {true, false}) {
      set(config, "positions", rotary ? "rope" : "none");
      const Layer layer(config);
      const double change =
          difference(reversed(layer.forward(x, 1)), layer.forward(reversed(x), 1));
      EXPECT_EQ(change > kRounding, rotary) << kind->name;
    }
  }
}

// GQA with as many KV heads as query heads is MHA, with one MQA, as MFA without a query latent is;
// GTA without a rotary key is GQA with tied keys and values.
RC_GTEST_PROP(NamesOfGroupedAttention, GiveTheSameBits, ()) {
  const auto expect_equal = [](LayerConfig config, std::string_view other) {
    const Index batch = *rc::gen::inRange<Index>(1, 4), length = *rc::gen::inRange<Index>(1, 81);
    const Values x = normal_values(0, batch * length * config.dim);
    const Values y = Layer(config).forward(x, batch);
    config.kind = other;
    RC_ASSERT(Layer(config).forward(x, batch) == y);
  };
  LayerConfig config = random_layer(attention_kind("gqa"));
  set(config, "kv-heads", resolved(config).heads);
  expect_equal(config, "mha");
  set(config, "kv-heads", 1);
  expect_equal(config, "mqa");
  LayerConfig mfa = random_layer(attention_kind("mfa"));
  set(mfa, "q-rank", 0);
  expect_equal(mfa, "mqa");
  LayerConfig gta = random_layer(attention_kind("gta"), {"qk-norm"});
  set(gta, "rope-dim", 0);
  set(gta, "tie-kv", true);
  expect_equal(gta, "gqa");
}

TEST(RotaryTable, OfEqualSizesIsOneForAllLayers) {
  const RotaryTable table(4, 9, 100), same(4, 9, 100), other(4, 9, 101);
  EXPECT_EQ(&table.angles(), &same.angles());
  EXPECT_NE(&table.angles(), &other.angles());
}

}  // namespace
}  // namespace headcount
