// Attentions that are each other under other settings.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "nn/random_input.h"

namespace headcount {
namespace {

Index random_divisor(Index n) {
  return *rc::gen::suchThat(rc::gen::inRange<Index>(1, n + 1), [n](Index d) { return n % d == 0; });
}

LayerConfig with_kind(LayerConfig config, std::string_view kind) {
  config.kind = kind;
  return config;
}

// GQA with as many KV heads as query heads is MHA, with one MQA, as MFA without a query latent is;
// GTA without a rotary key is GQA with tied keys and values.
RC_GTEST_PROP(NamesOfGroupedAttention, GiveTheSameBits, ()) {
  const Input input;
  const auto expect_equal = [&](const LayerConfig& config, std::string_view other) {
    const Values x = input.values(config.dim);
    RC_ASSERT(Layer(config).forward_and_backward(x, input.batch) ==
              Layer(with_kind(config, other)).forward_and_backward(x, input.batch));
  };
  const Index heads = random_heads();
  LayerConfig config = random_config("gqa", heads);
  set(config, "kv-heads", heads);
  expect_equal(config, "mha");
  set(config, "kv-heads", 1);
  expect_equal(config, "mqa");
  LayerConfig mfa = random_config("mfa", 2 * random_heads());
  set(mfa, "q-rank", 0);
  expect_equal(mfa, "mqa");
  LayerConfig gta = with_kind(mfa, "gta");
  set(gta, "kv-heads", random_divisor(get(gta, "heads")));
  set(gta, "rope-dim", 0);
  set(gta, "tie-kv", true);
  const Values x = input.values(gta.dim);
  RC_ASSERT(Layer(gta).forward(x, input.batch) ==
            Layer(with_kind(gta, "gqa")).forward(x, input.batch));
}

// A tied row is rotated as key and as value, and the query's position rotates it back: a token's
// output depends on distances to other tokens, not on positions.
TEST(TiedGroupedAttention, ValuesTellHowFarAwayATokenIs) {
  LayerConfig config = small_config("mqa");
  set(config, "window", 3);
  set(config, "tie-kv", true);
  const Layer layer(config);
  // A text of period 3: with a window of 3, each token sees what the token 3 before it saw.
  const Values period = normal_values(0, 3 * 12);
  Values x;
  for (int i = 0; i < 3; ++i) x.insert(x.end(), period.begin(), period.end());
  const Values y = layer.forward(x, 1);
  const auto token = [&](std::size_t t) { return std::span(y).subspan(12 * t, 12); };
  for (const std::size_t t : {3, 4, 5}) EXPECT_LT(difference(token(t), token(t + 3)), kRounding);
  config.rotary = false;
  EXPECT_GT(difference(Layer(config).forward(x, 1), y), 0.01);
}

// Tied attention without rotation equals attention whose keys and values have one weight.
TEST(TiedGroupedAttention, WithoutRotationIsAttentionWhoseKeysAndValuesHaveOneWeight) {
  LayerConfig config = small_config("gqa");
  set(config, "kv-heads", 1);
  set(config, "rope-dim", 0);
  LayerConfig tied_config = config;
  set(tied_config, "tie-kv", true);
  Layer plain(config), tied(tied_config);
  for (const char* name : {"k_proj.weight", "v_proj.weight"})
    std::ranges::copy(tied.weight("kv_proj.weight"), plain.weight(name).begin());
  const Values x = normal_values(0, 2 * 9 * 12);
  EXPECT_LT(difference(plain.forward(x, 2), tied.forward(x, 2)), kRounding);
}

// With several latents, a query head reads one and ignores the others.
TEST(LatentAttention, OfSeveralLatentsGivesEachToItsHeads) {
  LayerConfig config = small_config("mla");
  set(config, "heads", 4);
  set(config, "output-projection", false);
  set(config, "kv-rank", 6);
  set(config, "latents", 2);
  Layer layer(config), changed(config);
  // The second half of the rows of kv_a_proj makes the second latent, before the rotary key's.
  const std::span<Real> down = changed.weight("kv_a_proj_with_mqa.weight");
  for (std::size_t i = 3 * 12; i < 6 * 12; ++i) down[i] += Real{1};
  const Values x = normal_values(0, 9 * 12);
  const Values y = layer.forward(x, 1), z = changed.forward(x, 1);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const bool first_half = i % 16 < 8;
    EXPECT_EQ(y[i] == z[i], first_half) << i;
  }
}

TEST(RotaryTable, OfEqualSizesIsOneForAllLayers) {
  const RotaryTable table(4, 9, 100), same(4, 9, 100);
  EXPECT_EQ(&table.angles(), &same.angles());
  for (const RotaryTable& other :
       {RotaryTable(6, 9, 100), RotaryTable(4, 8, 100), RotaryTable(4, 9, 101)})
    EXPECT_NE(&table.angles(), &other.angles());
  EXPECT_NEAR(static_cast<double>(table.angles().cosines[3 * 2 + 1]), std::cos(0.3), 1e-7);
  EXPECT_NEAR(static_cast<double>(table.angles().sines[3 * 2 + 1]), std::sin(0.3), 1e-7);
}

}  // namespace
}  // namespace headcount
