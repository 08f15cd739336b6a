#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "autograd/ops.h"
#include "support/message_of.h"
#include "support/numbers.h"

// Errors about shapes name the op and the shapes that do not fit together.
namespace headcount {
namespace {

class ShapeErrors : public testing::Test {
 protected:
  Var of(const Shape& shape) { return tape.leaf(shape, normal_values("", 0, shape.size())); }

  // `call` must throw a ShapeError that begins so.
  static void expect(const std::string& begin, const std::function<void()>& call) {
    const std::string message = message_of<ShapeError>(call);
    EXPECT_TRUE(message.starts_with(begin)) << message;
  }
  Tape tape;
};

TEST_F(ShapeErrors, OfArithmeticAndShaping) {
  expect("subtract: shapes [3] and [2, 3]", [&] { subtract(of({3}), of({2, 3})); });
  expect("multiply: shapes [2, 3] and [2, 1]", [&] { multiply(of({2, 3}), of({2, 1})); });
  expect("reshape: shape [2, 3] cannot become [7]", [&] { reshape(of({2, 3}), {7}); });
  expect("transpose: dimensions 1 and 2", [&] { transpose(of({2, 3}), 1, 2); });
  expect("transpose: dimensions -1 and 0", [&] { transpose(of({2, 3}), -1, 0); });
  const std::array<Index, 2> sizes = {1, 1};
  expect("split: the sizes add up to 2", [&] { split(of({2, 3}), sizes); });
  expect("split: columns 2 to 3 are not in [2, 3]", [&] { columns(of({2, 3}), 2, 2); });
  expect("concat: shapes [2, 3] and [3, 3]", [&] { concat(of({2, 3}), of({3, 3})); });
  expect("concat: shapes [2, 3] and [3]", [&] { concat(of({2, 3}), of({3})); });
}

TEST_F(ShapeErrors, OfProductsAndEmbedding) {
  const auto product = [&](const Shape& a, const Shape& b) { matrix_product(of(a), of(b)); };
  expect("matrix_product: shapes [2, 3] and [2, 4]", [&] { product({2, 3}, {2, 4}); });
  expect("matrix_product: shapes [2, 2, 3]", [&] { product({2, 2, 3}, {3, 3, 4}); });
  expect("linear: the weight [5, 4]", [&] { linear(of({2, 3}), of({5, 4})); });
  expect("linear: the bias must be [5]", [&] { linear(of({2, 3}), of({5, 3}), of({4})); });
  const std::array<std::int32_t, 2> ids = {0, 4}, negative = {-1, 0};
  expect("embedding: id 4 is outside", [&] { embedding(of({4, 3}), ids, {2}); });
  expect("embedding: id -1 is outside", [&] { embedding(of({4, 3}), negative, {2}); });
  expect("embedding: 2 ids do not fill [3]", [&] { embedding(of({5, 3}), ids, {3}); });
}

TEST_F(ShapeErrors, OfNormsGatesAndDropout) {
  const Var x = of({2, 3});
  expect("layer_norm: weight and bias must be [3] for an input [2, 3], are [3] and [4]",
         [&] { layer_norm(x, of({3}), of({4}), 1); });
  expect("rms_norm: weight and bias must be [3]", [&] { rms_norm(x, of({4}), 1); });
  expect("silu_gate: the gate [2, 3] and [3, 2]", [&] { silu_gate(x, of({3, 2})); });
  expect("dropout: the probability", [&] { dropout(x, 1); });
}

TEST_F(ShapeErrors, OfRotarySoftmaxAndCrossEntropy) {
  expect("rotary: the rotary dimension must be even", [] { RotaryTable(3, 5, 10000); });
  const RotaryTable table(4, 5, 10000);
  const auto turn = [&](const Shape& shape, Index first) {
    return [=, this, &table] { rotary(of(shape), table, RotaryLayout::half, first); };
  };
  expect("rotary: wants [B, T, H, D] with D >= 4, got [1, 2, 1, 2]", turn({1, 2, 1, 2}, 0));
  expect("rotary: positions 3 to 5", turn({1, 3, 1, 4}, 3));
  expect("rotary: positions -1 to 1", turn({1, 3, 1, 4}, -1));
  expect("softmax: nothing to normalise in [2, 0]", [&] { softmax(of({2, 0})); });
  const std::array<std::int32_t, 2> targets = {0, 3};
  expect("cross_entropy: logits [3, 4]", [&] { cross_entropy(of({3, 4}), targets); });
  expect("cross_entropy: target 3", [&] { cross_entropy(of({2, 3}), targets); });
}

TEST_F(ShapeErrors, OfAttention) {
  const auto refuse = [&](const std::string& begin, const Shape& q, const Shape& k, const Shape& v,
                          const AttentionOptions& options = {}) {
    expect("attention: " + begin, [&] { attention(of(q), of(k), of(v), options); });
  };
  const Shape q = {2, 3, 4, 5}, k = {2, 3, 2, 5}, odd = {2, 3, 3, 5}, few = {2, 2, 2, 5};
  const std::array<std::uint8_t, 5> mask{};
  refuse("query heads must be a multiple of key/value heads (q [2, 3, 4, 5], k [2, 3, 3, 5]", q,
         odd, odd);
  refuse("q and k must have the same head dimension", q, {2, 3, 2, 6}, k);
  refuse("batch and key lengths", q, {1, 3, 2, 5}, k);
  refuse("batch and key lengths", q, k, {2, 4, 2, 5});
  refuse("q, k and v must have 4", {3, 4, 5}, k, k);
  refuse("causal attention needs a key for every query", q, few, few);
  refuse("a window", q, k, k, {.causal = false, .window = 2});
  refuse("a window", q, k, k, {.window = -1});
  refuse("the key mask", q, k, k, {.key_mask = mask});
  refuse("dropout", q, k, k, {.dropout = 1});
  refuse("sinks", q, k, k, {.sinks = of({2})});
}

TEST_F(ShapeErrors, OfShapesThemselvesAndOfTheItemOfAVector) {
  EXPECT_THROW(of({2}).item(), ShapeError);
  EXPECT_THROW((Shape{2, -1}), ShapeError);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), ShapeError);
  EXPECT_THROW(Shape{}.with_last(3), ShapeError);
}

TEST_F(ShapeErrors, OfCausalConvolution) {
  const auto refuse = [&](const std::string& begin, const Shape& w, Index first, Index tokens = 2) {
    expect("causal_convolution: " + begin, [&] {
      causal_convolution(of({1, 2, 3}), of(w), first, Skip::none, tokens);
    });
  };
  refuse("wants [B, T, C] and a weight [channels, 1, taps], got [1, 2, 3] and [5, 2]", {5, 2}, 0);
  refuse("channels 3 to 5 are not in the weight [5, 1, 2]", {5, 1, 2}, 3);
  refuse("has no 3 tokens in [1, 2, 3]", {3, 1, 2}, 0, 3);
}

// Cached rows are constants: a gradient of any other input would be wrong without theirs.
TEST_F(ShapeErrors, OfAttentionOverCachedRowsBesideAGradient) {
  RowCache cache(1, 1, 2, 4, CacheType::real);
  const std::vector<Real> row(2);
  cache.write(0, 0, row.data());
  const Rows cached(cache, 1);
  const Var leaf = of({1, 1, 1, 2}), constant = tape.constant({1, 1, 1, 2}, row);
  const auto attend = [&](Var q, const Rows& k, const Rows& v, const AttentionOptions& options) {
    return message_of<ShapeError>([&] { attention(q, k, v, options); });
  };
  EXPECT_EQ(attend(constant, cached, cached, {}), "no error");
  EXPECT_EQ(attend(constant, constant, cached, {}), "no error");
  const PooledRows pooled = {.keys = leaf, .values = leaf, .tokens = 4};
  for (const std::string& said :
       {attend(leaf, cached, cached, {}), attend(constant, leaf, cached, {}),
        attend(constant, cached, leaf, {}), attend(constant, cached, cached, {.pooled = pooled})})
    EXPECT_TRUE(said.starts_with("attention: rows of a cache have no gradient")) << said;
}

TEST_F(ShapeErrors, OfGatedDeltaRule) {
  std::vector<Real> state(4 * 3 * 5);
  const auto refuse = [&](const std::string& begin, const Shape& k, const Shape& v, const Shape& g,
                          std::span<Real> from = {}) {
    expect("gated_delta_rule: " + begin, [&] {
      gated_delta_rule(of({1, 2, 2, 3}), of(k), of(v), of(g), of(g), from);
    });
  };
  const Shape k = {1, 2, 2, 3}, v = {1, 2, 4, 5}, g = {1, 2, 4};
  refuse("q and k must be [B, T, G, Dk] alike (q [1, 2, 2, 3], k [1, 2, 2, 4]", {1, 2, 2, 4}, v, g);
  refuse("q and v must have the same", k, {1, 3, 4, 5}, g);
  refuse("heads must be a multiple", k, {1, 2, 3, 5}, {1, 2, 3});
  refuse("beta must be [B, T, H]", k, v, {1, 2, 4, 3});
  refuse("a state has no gradient", k, v, g, state);
  refuse("a state is [B, H, Dk, Dv]", k, v, g, std::span(state).first(59));
  expect("gated_linear_attention: a fixed decay [H] is a constant",
         [&] { gated_linear_attention(of(k), of(k), of(v), of({4})); });
}

}  // namespace
}  // namespace headcount
