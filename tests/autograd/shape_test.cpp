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

  // `call` must throw a ShapeError of one line that begins with the first part and has all of them.
  static void expect(const std::vector<std::string>& parts, const std::function<void()>& call) {
    const std::string message = message_of<ShapeError>(call);
    EXPECT_TRUE(message.starts_with(parts[0] + ": ")) << message;
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  Tape tape;
};

TEST_F(ShapeErrors, OfArithmeticAndShaping) {
  expect({"add", "[2, 3]", "[2]"}, [&] { add(of({2, 3}), of({2})); });
  expect({"subtract", "[3]", "[2, 3]"}, [&] { subtract(of({3}), of({2, 3})); });
  expect({"multiply", "[2, 3]", "[2, 1]"}, [&] { multiply(of({2, 3}), of({2, 1})); });
  expect({"divide", "[2, 3]", "[4]"}, [&] { divide(of({2, 3}), of({4})); });
  expect({"reshape", "[2, 3]", "[7]"}, [&] { reshape(of({2, 3}), {7}); });
  expect({"transpose", "[2, 3]", "1 and 2"}, [&] { transpose(of({2, 3}), 1, 2); });
  expect({"transpose", "[2, 3]", "1 and 1"}, [&] { transpose(of({2, 3}), 1, 1); });
  expect({"transpose", "[2, 3]", "-1 and 0"}, [&] { transpose(of({2, 3}), -1, 0); });
  const std::array<Index, 2> sizes = {1, 1};
  expect({"split", "[2, 3]", "add up to 2,"}, [&] { split(of({2, 3}), sizes); });
  expect({"concat", "[2, 3]", "[3, 3]"}, [&] { concat(of({2, 3}), of({3, 3})); });
  expect({"concat", "[1, 3]", "[2, 3]"}, [&] { concat(of({1, 3}), of({2, 3})); });
  expect({"concat", "[2, 3]", "[3]"}, [&] { concat(of({2, 3}), of({3})); });
}

TEST_F(ShapeErrors, OfProductsAndEmbedding) {
  expect({"matrix_product", "[2, 3]", "[2, 4]"}, [&] { matrix_product(of({2, 3}), of({2, 4})); });
  expect({"matrix_product", "[2, 2, 3]", "[3, 3, 4]"}, [&] {
    matrix_product(of({2, 2, 3}), of({3, 3, 4}));
  });
  expect({"linear", "[2, 3]", "[5, 4]"}, [&] { linear(of({2, 3}), of({5, 4})); });
  expect({"linear", "[4]", "[5]"}, [&] { linear(of({2, 3}), of({5, 3}), of({4})); });
  const std::array<std::int32_t, 2> ids = {0, 4}, negative = {-1, 0};
  expect({"embedding", "id 4 ", "4 rows"}, [&] { embedding(of({4, 3}), ids, {2}); });
  expect({"embedding", "id -1 ", "4 rows"}, [&] { embedding(of({4, 3}), negative, {2}); });
  expect({"embedding", "2 ids", "[3]"}, [&] { embedding(of({5, 3}), ids, {3}); });
  expect({"embedding", "[5]"}, [&] { embedding(of({5}), ids, {2}); });
}

TEST_F(ShapeErrors, OfNormsGatesAndDropout) {
  const Real epsilon{1e-5};
  expect({"layer_norm", "[2, 3]", "[3]", "[4]"}, [&] {
    layer_norm(of({2, 3}), of({4}), std::nullopt, epsilon);
  });
  expect({"layer_norm", "[2, 3]", "[3]", "[4]"}, [&] {
    layer_norm(of({2, 3}), of({3}), of({4}), epsilon);
  });
  expect({"rms_norm", "[2, 3]", "[3]", "[4]"}, [&] { rms_norm(of({2, 3}), of({4}), epsilon); });
  expect({"silu_gate", "[2, 3]", "[3, 2]"}, [&] { silu_gate(of({2, 3}), of({3, 2})); });
  expect({"sigmoid_gate", "[2, 3]", "[3, 2]"}, [&] { sigmoid_gate(of({2, 3}), of({3, 2})); });
  expect({"dropout", "1.0"}, [&] { dropout(of({2}), 1); });
  expect({"dropout", "-0.1"}, [&] { dropout(of({2}), Real{-0.1}); });
}

TEST_F(ShapeErrors, OfRotarySoftmaxAndCrossEntropy) {
  expect({"rotary", "3"}, [] { RotaryTable(3, 5, 10000); });
  const RotaryTable table(4, 5, 10000);
  const auto turn = [&](const Shape& shape, Index first) {
    return [=, this, &table] { rotary(of(shape), table, RotaryLayout::half, first); };
  };
  expect({"rotary", "[1, 2, 1, 2]", "4"}, turn({1, 2, 1, 2}, 0));
  expect({"rotary", "[2, 1, 4]"}, turn({2, 1, 4}, 0));
  expect({"rotary", "3 to 5", "table of 5"}, turn({1, 3, 1, 4}, 3));
  expect({"rotary", "-1 to 1"}, turn({1, 3, 1, 4}, -1));
  expect({"softmax", "[]"}, [&] { softmax(of({})); });
  expect({"softmax", "[2, 0]"}, [&] { softmax(of({2, 0})); });
  const std::array<std::int32_t, 2> targets = {0, 3};
  expect({"cross_entropy", "[3, 4]", "2 targets"}, [&] { cross_entropy(of({3, 4}), targets); });
  expect({"cross_entropy", "target 3 ", "3 classes"}, [&] { cross_entropy(of({2, 3}), targets); });
}

TEST_F(ShapeErrors, OfAttention) {
  const auto attend = [this](const Shape& q, const Shape& k, const Shape& v,
                             const AttentionOptions& options = {}) {
    return [=, this] { attention(of(q), of(k), of(v), options); };
  };
  const Shape q = {2, 3, 4, 5}, k = {2, 3, 2, 5};
  const std::array<std::uint8_t, 5> mask{};
  expect({"attention", "[2, 3, 4, 5]", "[2, 3, 3, 5]"}, attend(q, {2, 3, 3, 5}, {2, 3, 3, 5}));
  expect({"attention", "[2, 3, 4, 5]", "[2, 3, 2, 6]"}, attend(q, {2, 3, 2, 6}, k));
  expect({"attention", "[1, 3, 2, 5]"}, attend(q, {1, 3, 2, 5}, k));
  expect({"attention", "[2, 4, 2, 5]"}, attend(q, k, {2, 4, 2, 5}));
  expect({"attention", "[2, 3, 3, 5]"}, attend(q, k, {2, 3, 3, 5}));
  expect({"attention", "[3, 4, 5]"}, attend({3, 4, 5}, k, k));
  expect({"attention", "key for every query"}, attend(q, {2, 2, 2, 5}, {2, 2, 2, 5}));
  expect({"attention", "window"}, attend(q, k, k, {.causal = false, .window = 2}));
  expect({"attention", "window"}, attend(q, k, k, {.window = -1}));
  expect({"attention", "key mask"}, attend(q, k, k, {.key_mask = mask}));
  expect({"attention", "dropout"}, attend(q, k, k, {.dropout = 1}));
  expect({"attention", "sinks", "each query head"}, attend(q, k, k, {.sinks = of({2})}));
}

TEST_F(ShapeErrors, OfShapesThemselvesAndOfTheItemOfAVector) {
  EXPECT_THROW(of({2}).item(), ShapeError);
  EXPECT_THROW((Shape{2, -1}), ShapeError);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), ShapeError);
  EXPECT_THROW(Shape{}.with_last(3), ShapeError);
}

TEST(Shape, KnowsItsExtents) {
  const Shape shape = {2, 3, 4};
  EXPECT_EQ(shape.text(), "[2, 3, 4]");
  EXPECT_EQ(shape.size(), 24);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.last(), 4);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape.with_last(7), (Shape{2, 3, 7}));
  EXPECT_EQ(Shape{}.size(), 1) << "a scalar";
}

TEST_F(ShapeErrors, OfCausalConvolution) {
  const auto call = [&](const Shape& x, const Shape& w, Index first) {
    return [this, x, w, first] { causal_convolution(of(x), of(w), first); };
  };
  expect({"causal_convolution", "[2, 3]", "[5, 1, 2]"}, call({2, 3}, {5, 1, 2}, 0));
  expect({"causal_convolution", "[5, 2]"}, call({1, 2, 3}, {5, 2}, 0));
  expect({"causal_convolution", "channels 3 to 5", "[5, 1, 2]"}, call({1, 2, 3}, {5, 1, 2}, 3));
  expect({"causal_convolution", "no 3 tokens", "[1, 2, 3]"}, [&] {
    causal_convolution(of({1, 2, 3}), of({3, 1, 2}), 0, Skip::none, 3);
  });
}

// Cached rows are constants: a gradient of any other input would be wrong without theirs.
TEST_F(ShapeErrors, OfAttentionOverCachedRowsBesideAGradient) {
  RowCache cache(1, 1, 2, 4, CacheType::real);
  const std::vector<Real> row(2);
  cache.write(0, 0, row.data());
  const Rows cached(cache, 1);
  const Shape shape = {1, 1, 1, 2};
  const auto constant = [&] { return tape.constant(shape, row); };
  const auto refuse = [&](const std::function<void()>& call) {
    expect({"attention", "rows of a cache have no gradient"}, call);
  };
  attention(constant(), cached, cached, {});
  attention(constant(), constant(), cached, {});
  refuse([&] { attention(of(shape), cached, cached, {}); });
  refuse([&] { attention(constant(), of(shape), cached, {}); });
  refuse([&] { attention(constant(), cached, of(shape), {}); });
  const PooledRows pooled = {.keys = of(shape), .values = of(shape), .tokens = 4};
  refuse([&] { attention(constant(), cached, cached, {.pooled = pooled}); });
}

TEST_F(ShapeErrors, OfGatedDeltaRule) {
  const auto call = [&](const Shape& q, const Shape& k, const Shape& v, const Shape& g) {
    return [this, q, k, v, g] { gated_delta_rule(of(q), of(k), of(v), of(g), of(g)); };
  };
  const Shape q = {1, 2, 2, 3}, v = {1, 2, 4, 5}, g = {1, 2, 4};
  expect({"gated_delta_rule", "[1, 2, 2, 3]", "[1, 2, 2, 4]"}, call(q, {1, 2, 2, 4}, v, g));
  expect({"gated_delta_rule", "[1, 3, 4, 5]"}, call(q, q, {1, 3, 4, 5}, g));
  expect({"gated_delta_rule", "multiple"}, call(q, q, {1, 2, 3, 5}, {1, 2, 3}));
  expect({"gated_delta_rule", "[1, 2, 3]"}, call(q, q, v, {1, 2, 3}));
  expect({"gated_delta_rule", "beta must be [B, T, H]"}, call(q, q, v, {1, 2, 4, 3}));
  std::vector<Real> state(4 * 3 * 5);
  expect({"gated_delta_rule", "no gradient"},
         [&] { gated_delta_rule(of(q), of(q), of(v), of(g), of(g), state); });
  state.pop_back();
  expect({"gated_delta_rule", "[B, H, Dk, Dv]"},
         [&] { gated_delta_rule(of(q), of(q), of(v), of(g), of(g), state); });
}

}  // namespace
}  // namespace headcount
