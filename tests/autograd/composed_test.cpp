// programs: in_double
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "autograd/any_size.h"
#include "autograd/compositions.h"
#include "autograd/evaluation.h"

// Each fused op against its composition: values, and gradients of every input.
namespace headcount {
namespace {

using Inputs = std::span<const Var>;

// Any shape of rank 1 to 4 with this last extent.
Shape any_shape(Index last) {
  Shape shape;
  for (Index rank = any_size(0, 3); rank > 0; --rank) shape.append(any_size(1, 7));
  shape.append(last);
  return shape;
}

std::vector<std::int32_t> any_ids(Index count, Index bound) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int32_t>(any_size(0, static_cast<int>(bound) - 1)));
  return ids;
}

void agree(const CheckedFunction& fused, const CheckedFunction& composed,
           std::initializer_list<Shape> shapes) {
  const auto inputs = normal_inputs("composed" + std::to_string(any_size(0, 1000)), shapes);
  const double error = difference(evaluate(fused, inputs), evaluate(composed, inputs));
  RC_LOG() << "difference " << error << "\n";
  RC_ASSERT(error < kComposedTolerance);
}

TEST(Composed, ElementwiseFunctionsOfTheTestsAreRight) {
  const auto function = [](Tape&, Inputs x) {
    return exponential(x[0]) * logarithm(x[0]) + square_root(x[0]) * error_function(x[0]);
  };
  std::vector<CheckedInput> inputs = {{{4}, {Real{0.3}, Real{0.9}, Real{1.4}, Real{2.2}}}};
  const GradientReport report = check_gradients(function, inputs);
  EXPECT_LT(report.error, 1e-8) << report.text();
}

TEST(Composed, OpsOfOneInput) {
  using Function = Var (*)(Var);
  for (const auto& [fused, composed] : {std::pair<Function, Function>{gelu, composed_gelu},
                                        {silu, composed_silu},
                                        {sigmoid, composed_sigmoid},
                                        {softplus, composed_softplus},
                                        {softmax, composed_softmax}}) {
    EXPECT_TRUE(rc::check([&, f = fused, c = composed] {
      agree([f](Tape&, Inputs x) { return f(x[0]); }, [c](Tape&, Inputs x) { return c(x[0]); },
            {any_shape(any_size(1, 40))});
    }));
  }
}

TEST(Composed, GatesOfTwoInputs) {
  EXPECT_TRUE(rc::check([] {
    const Shape shape = any_shape(any_size(1, 40));
    agree([](Tape&, Inputs x) { return silu_gate(x[0], x[1]); },
          [](Tape&, Inputs x) { return composed_silu(x[0]) * x[1]; }, {shape, shape});
    agree([](Tape&, Inputs x) { return sigmoid_gate(x[0], x[1]); },
          [](Tape&, Inputs x) { return composed_sigmoid(x[0]) * x[1]; }, {shape, shape});
  }));
}

TEST(Composed, SoftCap) {
  constexpr Real kCap = 1.5;
  EXPECT_TRUE(rc::check([] {
    agree([](Tape&, Inputs x) { return soft_cap(x[0], kCap); },
          [](Tape& tape, Inputs x) {
            const Var s = composed_sigmoid(scale(x[0], 2 / kCap));  // tanh(z) = 2 sigmoid(2z) - 1
            return scale(s, 2 * kCap) - filled(tape, x[0].shape(), kCap);
          },
          {any_shape(any_size(1, 40))});
  }));
}

TEST(Composed, LayerNorm) {
  EXPECT_TRUE(rc::check([] {
    const Index width = any_size(3, 40);
    const bool has_bias = *rc::gen::arbitrary<bool>();
    const Real epsilon = *rc::gen::element(Real{1e-5}, Real{0.1});
    const auto bias = [=](Inputs x) { return has_bias ? std::optional(x[2]) : std::nullopt; };
    agree([=](Tape&, Inputs x) { return layer_norm(x[0], x[1], bias(x), epsilon); },
          [=](Tape&, Inputs x) { return composed_layer_norm(x[0], x[1], bias(x), epsilon); },
          {any_shape(width), {width}, {width}});
  }));
}

TEST(Composed, RmsNorm) {
  EXPECT_TRUE(rc::check([] {
    const Index width = any_size(1, 40);
    const bool has_weight = *rc::gen::arbitrary<bool>();
    const Real epsilon = *rc::gen::element(Real{1e-4}, Real{0.1});
    const auto weight = [=](Inputs x) { return has_weight ? std::optional(x[1]) : std::nullopt; };
    agree([=](Tape&, Inputs x) { return rms_norm(x[0], weight(x), epsilon); },
          [=](Tape&, Inputs x) { return composed_rms_norm(x[0], weight(x), epsilon); },
          {any_shape(width), {width}});
  }));
}

TEST(Composed, Linear) {
  EXPECT_TRUE(rc::check([] {
    const Index in = any_size(1, 40), out = any_size(1, 40);
    const bool has_bias = *rc::gen::arbitrary<bool>();
    const auto bias = [=](Inputs x) { return has_bias ? std::optional(x[2]) : std::nullopt; };
    agree([=](Tape&, Inputs x) { return linear(x[0], x[1], bias(x)); },
          [=](Tape&, Inputs x) { return composed_linear(x[0], x[1], bias(x)); },
          {any_shape(in), {out, in}, {out}});
  }));
}

TEST(Composed, HeadLinear) {
  EXPECT_TRUE(rc::check([] {
    const Index heads = any_size(1, 5), r = any_size(1, 40), count = any_size(1, 30);
    const Index first = any_size(0, 5), block = first + count + any_size(0, 5);
    const Stored stored = *rc::gen::element(Stored::as_is, Stored::transposed);
    const Index in = stored == Stored::transposed ? r : count;
    agree([=](Tape&, Inputs x) { return head_linear(x[0], x[1], first, count, stored); },
          [=](Tape&, Inputs x) { return composed_head_linear(x[0], x[1], first, count, stored); },
          {{any_size(1, 3), any_size(1, 40), heads, in}, {heads * block, r}});
  }));
}

// Two uses of one weight, of rows that may overlap: their gradients are added.
TEST(Composed, HeadLinearIntoALatentAndOutOfIt) {
  EXPECT_TRUE(rc::check([] {
    const Index heads = any_size(1, 4), r = any_size(1, 20), count = any_size(1, 12);
    const Index first = any_size(0, 4), out = any_size(1, 12);
    const auto both = [=](const auto& product) {
      return [=](Tape&, Inputs x) {
        const Var latent = product(x[0], x[1], first, count, Stored::as_is);
        return product(latent, x[1], 0, out, Stored::transposed);
      };
    };
    agree(both(head_linear), both(composed_head_linear),
          {{any_size(1, 3), any_size(1, 20), heads, count}, {heads * (first + count + out), r}});
  }));
}

TEST(Composed, Embedding) {
  EXPECT_TRUE(rc::check([] {
    const Index n = any_size(1, 20);
    const Shape rows = {any_size(1, 5), any_size(1, 9)};
    const auto ids = any_ids(rows.size(), n);
    agree([&](Tape&, Inputs x) { return embedding(x[0], ids, rows); },
          [&](Tape&, Inputs x) { return composed_embedding(x[0], ids, rows); },
          {{n, any_size(1, 20)}});
  }));
}

TEST(Composed, CrossEntropy) {
  EXPECT_TRUE(rc::check([] {
    const Shape shape = any_shape(any_size(1, 40));
    const auto targets = any_ids(shape.rows(), shape.last());
    agree([&](Tape&, Inputs x) { return cross_entropy(x[0], targets); },
          [&](Tape&, Inputs x) { return composed_cross_entropy(x[0], targets); }, {shape});
  }));
}

TEST(Composed, Rotary) {
  EXPECT_TRUE(rc::check([] {
    const Index dim = 2 * any_size(1, 6), width = dim + any_size(0, 5), length = any_size(1, 9);
    const Index first = any_size(0, 20);
    const RotaryLayout layout = *rc::gen::element(RotaryLayout::half, RotaryLayout::interleaved);
    const RotaryTable table(dim, first + length, 10000);
    agree([&](Tape&, Inputs x) { return rotary(x[0], table, layout, first); },
          [&](Tape&, Inputs x) { return composed_rotary(x[0], dim, 10000, layout, first); },
          {{any_size(1, 3), length, any_size(1, 4), width}});
  }));
}

}  // namespace
}  // namespace headcount
