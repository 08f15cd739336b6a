// Attentions that are each other under other settings.
#include "nn/attention/attention.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "nn/kinds_with_scores.h"
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

// Reorders blocks of `block` elements: block i comes from block order[i].
void permute_blocks(std::span<Real> values, std::size_t block,
                    const std::vector<std::size_t>& order) {
  const Values old(values.begin(), values.end());
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::copy_n(old.begin() + static_cast<Index>(order[i] * block), block,
                values.begin() + static_cast<Index>(i * block));
  }
}

RC_GTEST_PROP(GroupedAttention, WithAsManyKvHeadsAsQueryHeadsIsMha, ()) {
  const Input input;
  const Index heads = random_heads();
  LayerConfig gqa = random_config("gqa", heads);
  set(gqa, "kv-heads", heads);
  const Values x = input.values(gqa.dim);
  const Values grouped = Layer(gqa).forward_and_backward(x, input.batch);
  RC_ASSERT(grouped == Layer(with_kind(gqa, "mha")).forward_and_backward(x, input.batch));
}

RC_GTEST_PROP(GroupedAttention, WithOneKvHeadIsMqa, ()) {
  const Input input;
  LayerConfig gqa = random_config("gqa", random_heads());
  set(gqa, "kv-heads", 1);
  const Values x = input.values(gqa.dim);
  const Values grouped = Layer(gqa).forward_and_backward(x, input.batch);
  RC_ASSERT(grouped == Layer(with_kind(gqa, "mqa")).forward_and_backward(x, input.batch));
}

// Query head i reads KV head i / (H / G): GQA is the MHA whose keys and values repeat each KV head
// H / G times in a row.
RC_GTEST_PROP(GroupedAttention, IsMhaWithEachKvHeadRepeatedForItsGroup, ()) {
  const Input input;
  const Index heads = random_heads();
  LayerConfig config = random_config("gqa", heads);
  set(config, "kv-heads", random_divisor(heads));
  Layer gqa(config), mha(with_kind(config, "mha"));
  const std::vector<std::string> kinds =
      config.bias ? std::vector<std::string>{"weight", "bias"} : std::vector<std::string>{"weight"};
  for (const std::string& kind : kinds) {
    for (const std::string name : {"k_proj.", "v_proj."}) {
      const std::span<const Real> few = gqa.weight(name + kind);
      const std::span<Real> many = mha.weight(name + kind);
      const std::size_t block = many.size() / static_cast<std::size_t>(mha.config.heads);
      for (Index head = 0; head < mha.config.heads; ++head) {
        const Index kv_head = head / (mha.config.heads / get(config, "kv-heads"));
        std::ranges::copy(few.subspan(static_cast<std::size_t>(kv_head) * block, block),
                          many.begin() + head * static_cast<Index>(block));
      }
    }
  }
  const Values x = input.values(config.dim);
  RC_ASSERT(difference(gqa.forward(x, input.batch), mha.forward(x, input.batch)) < kRounding);
}

RC_GTEST_PROP(GroupedAttention, DoesNotCareInWhichOrderGroupsStand, ()) {
  const Input input;
  const Index heads = random_heads();
  LayerConfig config = random_config("gqa", heads);
  set(config, "kv-heads", random_divisor(heads));
  std::vector<std::size_t> order;
  for (Index g = 0; g < get(config, "kv-heads"); ++g) order.push_back(static_cast<std::size_t>(g));
  std::shuffle(order.begin(), order.end(), std::mt19937(*rc::gen::arbitrary<unsigned>()));
  Layer plain(config), permuted(config);
  for (std::size_t i = 0; i < permuted.store.size(); ++i) {
    const std::string name = permuted.store.name({i});
    const std::span<Real> values = permuted.store.value({i});
    // o_proj reads the heads along its columns and its bias none of them.
    const bool output = name.starts_with("a.o_proj");
    if (name == "a.o_proj.bias") continue;
    const auto rows = static_cast<std::size_t>(output ? config.dim : 1);
    const std::size_t width = values.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      permute_blocks(values.subspan(row * width, width), width / order.size(), order);
    }
  }
  const Values x = input.values(config.dim);
  RC_ASSERT(difference(plain.forward(x, input.batch), permuted.forward(x, input.batch)) <
            kRounding);
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

// MFA without query latent is MQA; GTA without rotary key is GQA with tied keys and values.
RC_GTEST_PROP(OtherNamesOfGroupedAttention, GiveTheSameBits, ()) {
  const Input input;
  LayerConfig mfa = random_config("mfa", 2 * random_heads());
  set(mfa, "q-rank", 0);
  const Values x = input.values(mfa.dim);
  RC_ASSERT(Layer(mfa).forward_and_backward(x, input.batch) ==
            Layer(with_kind(mfa, "mqa")).forward_and_backward(x, input.batch));
  LayerConfig gta = with_kind(mfa, "gta");
  set(gta, "kv-heads", random_divisor(get(gta, "heads")));
  set(gta, "rope-dim", 0);
  set(gta, "tie-kv", true);
  RC_ASSERT(Layer(gta).forward(x, input.batch) ==
            Layer(with_kind(gta, "gqa")).forward(x, input.batch));
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

// MLA by hand: keys and values of each head expanded into whole tensors, then attention.
Values expanded_mla(const Layer& layer, const Values& x, Index batch) {
  const AttentionPlan& c = layer.config;
  const Index length = std::ssize(x) / batch / c.dim;
  const Index rope_dim = get(c, "rope-dim"), nope_dim = get(c, "nope-dim"), v_dim = get(c, "v-dim");
  Tape tape(layer.store);
  const auto project = [&](Var input, const std::string& name) {
    const auto parameter = [&](const std::string& kind) {
      return tape.parameter(layer.store.find("a." + name + kind));
    };
    return linear(input, parameter(".weight"),
                  c.bias ? std::optional(parameter(".bias")) : std::nullopt);
  };
  const auto norm = [&](Var input, const std::string& name) {
    if (!get(c, "latent-norm")) return input;
    return rms_norm(input, tape.parameter(layer.store.find("a." + name + ".weight")), Real{1e-6});
  };
  const Var in = tape.constant({batch, length, c.dim}, x);
  const Var q_flat = get(c, "q-rank") == 0
                         ? project(in, "q_proj")
                         : project(norm(project(in, "q_a_proj"), "q_a_layernorm"), "q_b_proj");
  const std::vector<Var> kv =
      split(project(in, "kv_a_proj_with_mqa"), std::array{get(c, "kv-rank"), rope_dim});
  const Var expanded = project(norm(kv[0], "kv_a_layernorm"), "kv_b_proj");

  const Index width = nope_dim + rope_dim;
  const RotaryTable table(rope_dim, length, c.rope_theta);
  const auto turn = [&](Var input) { return rotary(input, table, RotaryLayout::interleaved); };
  const Var q = turn(reshape(q_flat, {batch, length, c.heads, width}));
  const Var shared_key = turn(reshape(kv[1], {batch, length, 1, rope_dim}));
  Values k, v;
  for (Index token = 0; token < batch * length; ++token) {
    const Real* const rope = shared_key.value().data() + token * rope_dim;
    for (Index head = 0; head < c.heads; ++head) {
      const Real* const own =
          expanded.value().data() + (token * c.heads + head) * (nope_dim + v_dim);
      k.insert(k.end(), own, own + nope_dim);
      k.insert(k.end(), rope, rope + rope_dim);
      v.insert(v.end(), own + nope_dim, own + nope_dim + v_dim);
    }
  }
  const auto scale = static_cast<Real>(1 / std::sqrt(static_cast<double>(width)));
  const Var y = attention(q, tape.constant({batch, length, c.heads, width}, k),
                          tape.constant({batch, length, c.heads, v_dim}, v),
                          {.scale = scale, .causal = c.causal});
  const Var out = project(reshape(y, {batch, length, c.heads * v_dim}), "o_proj");
  return {out.value().begin(), out.value().end()};
}

RC_GTEST_PROP(LatentAttention, IsMhaWhoseKeysAndValuesAreItsExpansions, ()) {
  const Input input;
  LayerConfig config = random_config("mla", random_heads());
  config.rotary = true;
  set(config, "gate", false);
  set(config, "score-scale", "inv-sqrt");
  set(config, "kv-rank", *rc::gen::inRange<Index>(1, 20));
  set(config, "q-rank", *rc::gen::inRange<Index>(0, 20));
  set(config, "nope-dim", *rc::gen::inRange<Index>(1, 12));
  set(config, "rope-dim", 2 * *rc::gen::inRange<Index>(1, 6));
  set(config, "v-dim", *rc::gen::inRange<Index>(1, 12));
  set(config, "latent-norm", *rc::gen::arbitrary<bool>());
  const Layer layer(config);
  const Values x = input.values(config.dim);
  RC_ASSERT(difference(expanded_mla(layer, x, input.batch), layer.forward(x, input.batch)) <
            kRounding);
}

RC_GTEST_PROP(LatentBiasAttention, WithoutABiasIsMha, ()) {
  const Input input;
  LayerConfig config = random_config("latent-bias", random_heads());
  set(config, "latent-dim", *rc::gen::inRange<Index>(1, 10));
  Layer biased(config);
  std::ranges::fill(biased.weight("z_proj.weight"), Real{0});
  if (config.bias) std::ranges::fill(biased.weight("z_proj.bias"), Real{0});
  const Values x = input.values(config.dim);
  const Values y = Layer(with_kind(config, "mha")).forward(x, input.batch);
  RC_ASSERT(difference(y, biased.forward(x, input.batch)) < kRounding);
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
