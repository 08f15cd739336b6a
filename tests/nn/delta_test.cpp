// The gated delta layer of Qwen3-Next and Kimi delta attention: initial values and refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/test_layer.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(States, RefuseWhatOnlyAttentionHas) {
  for (const char* const kind : {"delta", "kda"}) {
    LayerConfig window = small_config(kind), both_ways = small_config(kind);
    set(window, "window", 4);
    both_ways.causal = false;
    for (const auto& [config, word] : {std::pair(window, "`window`"), {both_ways, "causal"}}) {
      const std::string refusal =
          message_of<ShapeError>([&config = config] { Layer layer(config); });
      EXPECT_NE(refusal.find(word), std::string::npos) << refusal;
    }
  }
}

// A decay whose rate overflows forgets all at once, as a great rate does.
TEST(Delta, DecaysToZeroWhereItsRateOverflows) {
  for (const char* const kind : {"delta", "kda"}) {
    Layer layer(small_config(kind));
    const Values x = normal_values(0, 2 * 9 * 12);
    const auto at = [&](Real a_log) {
      std::ranges::fill(layer.weight("A_log"), a_log);
      return layer.forward_and_backward(x, 2);
    };
    const Values limit = at(20);
    for (const Real a_log : {80, 88, 89, 100, 1000})
      EXPECT_LT(difference(limit, at(a_log)), kRounding) << kind << " " << a_log;
  }
}

// As in Qwen3-Next, whose projections put the numbers of a key head and of its value heads side by
// side: the same as a layer with as many key heads as value heads, of which some are equal.
TEST(Delta, WithFewerKeyHeadsIsOneThatRepeatsThem) {
  LayerConfig grouped = small_config("delta"), repeated = grouped;
  for (LayerConfig* config : {&grouped, &repeated}) set(*config, "heads", 4);
  set(grouped, "key-heads", 2);
  Layer few(grouped), many(repeated);
  // Sets row i of a weight of `many` to row `from[i]` of `few`.
  const auto copy_rows = [&](const std::string& name, const std::vector<std::size_t>& from) {
    const auto in = few.weight(name), out = many.weight(name);
    const std::size_t width = out.size() / from.size();
    for (std::size_t i = 0; i < from.size(); ++i)
      std::ranges::copy(in.subspan(from[i] * width, width), out.subspan(i * width, width).begin());
  };
  const auto add = [](std::vector<std::size_t>& rows, std::size_t first, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) rows.push_back(first + i);
  };
  constexpr std::size_t kWidth = 4;
  std::vector<std::size_t> qkvz, ba, conv;
  for (std::size_t head = 0; head < 4; ++head) {  // a key head of `few`: q, k, 2 v, 2 z
    const std::size_t key_head = head / 2, second = head % 2;
    for (const std::size_t part : {std::size_t{0}, std::size_t{1}, 2 + second, 4 + second})
      add(qkvz, (6 * key_head + part) * kWidth, kWidth);
    for (const std::size_t part : {second, 2 + second}) add(ba, 4 * key_head + part, 1);
  }
  for (const std::size_t part : {0, 1}) {  // q, then k
    for (std::size_t head = 0; head < 4; ++head) add(conv, (2 * part + head / 2) * kWidth, kWidth);
  }
  add(conv, 4 * kWidth, 4 * kWidth);  // v
  copy_rows("in_proj_qkvz.weight", qkvz);
  copy_rows("in_proj_ba.weight", ba);
  copy_rows("conv1d.weight", conv);
  const Values x = normal_values(0, 5 * 12);
  EXPECT_LT(difference(few.forward(x, 1), many.forward(x, 1)), kRounding);
}

// 400 heads as they are at the start.
struct AtTheStart {
  ParameterStore store;
  explicit AtTheStart(LayerConfig config) {
    set(config, "heads", 400);
    make_attention(store, "a", resolved(config), {});
    store.allocate();
    store.initialize(7);
  }
  std::span<const Real> numbers(const std::string& name) { return store.value(store.find(name)); }
  // Expects f of the numbers to be uniform on [least, most]: the mean within four deviations.
  template <class Function>
  void expect_uniform(const std::string& name, double least, double most, Function f) {
    double sum = 0;
    const auto count = static_cast<double>(numbers(name).size()), rounding = 1e-4 * (most - least);
    for (const Real x : numbers(name)) {
      const double y = f(static_cast<double>(x));
      EXPECT_GE(y, least - rounding);
      EXPECT_LE(y, most + rounding);
      sum += y;
    }
    EXPECT_NEAR(sum / count, (least + most) / 2, 4 * (most - least) / std::sqrt(12 * count));
  }
};

const auto exp_of = [](double x) { return std::exp(x); };

TEST(Delta, StartsAsTransformersStartsIt) {
  AtTheStart layer(small_config("delta"));
  layer.expect_uniform("a.A_log", 0, 16, exp_of);
  for (const Real bias : layer.numbers("a.dt_bias")) EXPECT_EQ(bias, 1);
}

TEST(Kda, StartsAsItsAuthorsStartIt) {
  AtTheStart layer(small_config("kda"));
  layer.expect_uniform("a.A_log", 1, 16, exp_of);
  layer.expect_uniform("a.dt_bias", -3, -1,
                       [](double x) { return std::log10(std::log1p(std::exp(x))); });
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

TEST(States, LetMatricesAloneDecay) {
  for (const char* const kind : {"delta", "kda"}) {
    const Layer layer(small_config(kind));
    for (std::size_t i = 0; i < layer.store.size(); ++i) {
      const std::string name = layer.store.name({i});
      EXPECT_EQ(layer.store.decays({i}), name.find("_proj") != name.npos && !name.ends_with("bias"))
          << name;
    }
  }
}

}  // namespace
}  // namespace headcount
