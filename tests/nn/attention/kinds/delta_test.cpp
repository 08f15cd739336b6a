// The gated delta layer of Qwen3-Next and Kimi delta attention: extreme decays, fewer key heads and
// initial values.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/attention/test_layer.h"

namespace headcount {
namespace {

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
  // Cuts a weight of `many` into blocks of rows, of which block i is block `from[i]` of `few`.
  const auto copy_blocks = [&](const std::string& name, const std::vector<std::size_t>& from) {
    const auto in = few.weight(name), out = many.weight(name);
    const std::size_t size = out.size() / from.size();
    for (std::size_t i = 0; i < from.size(); ++i)
      std::ranges::copy(in.subspan(from[i] * size, size), out.subspan(i * size, size).begin());
  };
  // A key head of `few` has q, k, two of v and two of z; then two of b and two of a.
  copy_blocks("in_proj_qkvz.weight", {0, 1, 2, 4, 0, 1, 3, 5, 6, 7, 8, 10, 6, 7, 9, 11});
  copy_blocks("in_proj_ba.weight", {0, 2, 1, 3, 4, 6, 5, 7});
  copy_blocks("conv1d.weight", {0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7});  // all q, then k, then v
  const Values x = normal_values(0, 5 * 12);
  EXPECT_LT(difference(few.forward(x, 1), many.forward(x, 1)), kRounding);
}

// Expects f of the initial numbers of 400 heads to be uniform on [least, most]: the mean within
// four deviations.
template <class Function>
void expect_uniform(const char* kind, const char* name, double least, double most, Function f) {
  LayerConfig config = small_config(kind);
  set(config, "heads", 400);
  ParameterStore store;
  make_attention(store, "a", resolved(config), {});
  store.allocate();
  store.initialize(7);
  const std::span<const Real> numbers = store.value(store.find(name));
  double sum = 0;
  const auto count = static_cast<double>(numbers.size()), rounding = 1e-4 * (most - least);
  for (const Real x : numbers) {
    const double y = f(static_cast<double>(x));
    EXPECT_GE(y, least - rounding);
    EXPECT_LE(y, most + rounding);
    sum += y;
  }
  EXPECT_NEAR(sum / count, (least + most) / 2, 4 * (most - least) / std::sqrt(12 * count));
}

// In flash-linear-attention.
TEST(States, DecayAtTheStartAsTheirAuthorsHaveIt) {
  const auto rate = [](double x) { return std::exp(x); };
  expect_uniform("delta", "a.A_log", 0, 16, rate);
  expect_uniform("kda", "a.A_log", 1, 16, rate);
  expect_uniform("ssd", "a.A_log", 1, 16, rate);
  for (const char* const kind : {"delta", "kda", "ssd"})
    expect_uniform(kind, "a.dt_bias", -3, -1,
                   [](double x) { return std::log10(std::log1p(std::exp(x))); });
}

}  // namespace
}  // namespace headcount
