// Grouped attention whose queries and keys are wider than its values.
#include <gtest/gtest.h>

#include "nn/attention/test_layer.h"

namespace headcount {
namespace {

// Six heads that share three KV heads, values 4 wide.
LayerConfig with_keys_of(Index width) {
  LayerConfig config = small_config("gqa");
  set(config, "heads", 6);
  set(config, "positions", "none");
  set(config, "key-dim", width);
  return config;
}

TEST(KeyDim, IsTheWidthInTheScoresOfThePlainComposition) {
  Layer layer(with_keys_of(7));
  const Values x = normal_values(0, 2 * 9 * 12);
  Tape tape(layer.store);
  const auto heads = [&](const char* name, Index count) {
    const Var weight = tape.parameter(layer.store.find(std::string("a.") + name + ".weight"));
    return split_heads(linear(tape.constant({2, 9, 12}, x), weight), count);
  };
  const Var y =
      plain_attention(heads("q_proj", 6), heads("k_proj", 3), heads("v_proj", 3), 1 / std::sqrt(7));
  EXPECT_EQ(y.shape(), (Shape{2, 9, 6, 4}));
  const Var out = linear(merge_heads(y), tape.parameter(layer.store.find("a.o_proj.weight")));
  EXPECT_LT(difference(out.value(), layer.forward(x, 2)), kRounding);
}

TEST(KeyDim, OfRowsThatAreZeroChangesNothingAtOneScoreScale) {
  LayerConfig narrow = with_keys_of(4), wide = with_keys_of(8);
  for (LayerConfig* config : {&narrow, &wide}) set(*config, "score-scale", "0.7");
  Layer few(narrow), many(wide);
  for (const char* const name : {"q_proj.weight", "k_proj.weight"}) {
    const std::span<const Real> from = few.weight(name);
    const std::span<Real> to = many.weight(name);
    const std::size_t head = 4 * 12;
    std::ranges::fill(to, Real{0});
    for (std::size_t i = 0; i < from.size(); ++i) to[i / head * 2 * head + i % head] = from[i];
  }
  const Values x = normal_values(0, 9 * 12);
  EXPECT_LT(difference(few.forward(x, 1), many.forward(x, 1)), kRounding);
}

}  // namespace
}  // namespace headcount
