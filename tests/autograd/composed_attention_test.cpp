#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "autograd/any_size.h"
#include "autograd/compositions.h"
#include "autograd/evaluation.h"
#include "autograd/parallel.h"

// The fused attention against its composition, and what a user may count on.
namespace headcount {
namespace {

using Inputs = std::span<const Var>;

struct Sizes {
  Index batch, queries, keys, heads, kv_heads, qk_width, v_width;

  std::vector<CheckedInput> inputs(const std::string& seed) const {
    const std::vector<Shape> shapes = {{batch, queries, heads, qk_width},
                                       {batch, keys, kv_heads, qk_width},
                                       {batch, keys, kv_heads, v_width}};
    return normal_inputs(seed, shapes);
  }
};

Sizes any_sizes(Index longest) {
  const Index keys = any_size(1, longest), kv_heads = any_size(1, 3);
  return {any_size(1, 3), any_size(1, keys), keys,          any_size(1, 3) * kv_heads,
          kv_heads,       any_size(1, 9),    any_size(1, 9)};
}

CheckedFunction with(Var (*attend)(Var, Var, Var, const AttentionOptions&),
                     const AttentionOptions& options) {
  return [=](Tape& tape, Inputs x) {
    tape.set_training(true);
    tape.set_random(5, 6);
    return attend(x[0], x[1], x[2], options);
  };
}

void agree(const AttentionOptions& options, const std::vector<CheckedInput>& inputs) {
  const auto fused = [](Var q, Var k, Var v, const AttentionOptions& o) {
    return attention(q, k, v, o);
  };
  const OpEvaluation expected = evaluate(with(composed_attention, options), inputs);
  const double error = difference(evaluate(with(fused, options), inputs), expected);
  RC_LOG() << "difference " << error << "\n";
  RC_ASSERT(error < kComposedTolerance);
}

std::vector<std::uint8_t> any_mask(Index size) {
  const Index shown_of_8 = any_size(0, 7);
  std::vector<std::uint8_t> mask;
  for (Index i = 0; i < size; ++i) mask.push_back(any_size(0, 7) < shown_of_8);
  return mask;
}

AttentionOptions any_options(const Sizes& sizes, std::span<const std::uint8_t> mask) {
  AttentionOptions options;
  options.scale = static_cast<Real>(any_size(1, 20)) / 10;
  options.causal = *rc::gen::arbitrary<bool>();
  if (options.causal && any_size(0, 1) == 1) options.window = any_size(1, sizes.keys);
  if (any_size(0, 1) == 1) options.key_mask = mask;
  if (any_size(0, 2) == 0) options.cap = static_cast<Real>(any_size(1, 30)) / 10;
  return options;
}

TEST(ComposedAttention, AnyOptionsAndShapes) {
  EXPECT_TRUE(rc::check([] {
    const Sizes sizes = any_sizes(40);
    const auto mask = any_mask(sizes.batch * sizes.keys);
    agree(any_options(sizes, mask), sizes.inputs("any" + std::to_string(any_size(0, 1000))));
  }));
}

TEST(ComposedAttention, LengthsOfSeveralTiles) {
  EXPECT_TRUE(rc::check([] {
    Sizes sizes = any_sizes(12);
    sizes.keys += any_size(60, 140);
    sizes.queries += any_size(0, sizes.keys - sizes.queries);
    const auto mask = any_mask(sizes.batch * sizes.keys);
    agree(any_options(sizes, mask), sizes.inputs("long" + std::to_string(any_size(0, 1000))));
  }));
}

TEST(ComposedAttention, RowScales) {
  EXPECT_TRUE(rc::check([] {
    const Sizes sizes = any_sizes(80);
    const auto mask = any_mask(sizes.batch * sizes.keys);
    AttentionOptions options = any_options(sizes, mask);
    options.row_scale = *rc::gen::element(RowScale::inverse_norm, RowScale::inverse_sqrt_length);
    if (options.row_scale == RowScale::inverse_norm) options.cap = 0;
    // Scores well above 0: a row of zeros has no norm to divide by.
    auto inputs = sizes.inputs("scaled" + std::to_string(any_size(0, 1000)));
    for (CheckedInput& input : inputs) {
      for (Real& x : input.values) x = Real{0.5} + std::abs(x);
    }
    agree(options, inputs);
  }));
}

TEST(ComposedAttention, ForgetGates) {
  EXPECT_TRUE(rc::check([] {
    const Sizes sizes = any_sizes(80);
    const auto mask = any_mask(sizes.batch * sizes.keys);
    AttentionOptions options = any_options(sizes, mask);
    options.row_scale = *rc::gen::element(RowScale::one, RowScale::inverse_sqrt_length);
    auto inputs = sizes.inputs("gated" + std::to_string(any_size(0, 1000)));
    const std::vector<Shape> gates = {{sizes.batch, sizes.keys, sizes.heads, 1}};
    inputs.push_back(normal_inputs("gates", gates).front());
    for (Real& gate : inputs.back().values) gate = Real{-0.3} * std::abs(gate);
    const auto gated = [&](const auto& attend) {
      return [&](Tape&, Inputs x) {
        const Rows rows = x[3];
        AttentionOptions with_gates = options;
        with_gates.log_gates = &rows;
        return attend(x[0], x[1], x[2], with_gates);
      };
    };
    const auto fused = [](Var q, Var k, Var v, const AttentionOptions& o) {
      return attention(q, k, v, o);
    };
    RC_ASSERT(difference(evaluate(gated(fused), inputs),
                         evaluate(gated(composed_attention), inputs)) < kComposedTolerance);
  }));
}

// Lists of at most `most` of the rows that each query sees, the last `window` ones or all; -1
// follows.
std::vector<std::int32_t> any_picks(const Sizes& sizes, Index blocks, Index tokens, Index most,
                                    Index window = 0) {
  std::vector<std::int32_t> picked;
  for (Index i = 0; i < sizes.batch * sizes.queries; ++i) {
    const Index position = sizes.keys - sizes.queries + i % sizes.queries;
    const Index seen = std::min(blocks, (position + 1) / tokens);
    const Index least = window > 0 ? std::max<Index>(0, seen - window) : 0;
    const Index count = std::min(most, seen - least), first = any_size(least, seen - count);
    for (Index j = 0; j < most; ++j)
      picked.push_back(
          j >= count ? -1 : static_cast<std::int32_t>(j + 1 == count ? seen - 1 : first + j));
  }
  return picked;
}

// Queries that pick some of the tokens that they see, of several tiles too.
TEST(ComposedAttention, PickedTokens) {
  EXPECT_TRUE(rc::check([] {
    const Sizes sizes = any_sizes(200);
    AttentionOptions options = any_options(sizes, {});
    options.key_mask = {};
    options.causal = true;
    options.row_scale =
        *rc::gen::element(RowScale::one, RowScale::inverse_norm, RowScale::inverse_sqrt_length);
    if (options.row_scale == RowScale::inverse_norm) options.cap = 0;
    std::vector<CheckedInput> inputs = sizes.inputs("picked" + std::to_string(any_size(0, 1000)));
    if (options.row_scale != RowScale::one) {
      for (CheckedInput& input : inputs) {
        for (Real& x : input.values) x = Real{0.5} + std::abs(x);
      }
    }
    const Index most = any_size(1, 6);
    const std::vector<std::int32_t> picked = any_picks(sizes, sizes.keys, 1, most, options.window);
    options.picked = PickedRows{picked.data(), most};
    agree(options, inputs);
  }));
}

// A second group of rows in the softmax, of several tiles too, of which queries may pick some.
TEST(ComposedAttention, PooledRows) {
  EXPECT_TRUE(rc::check([] {
    Sizes sizes = any_sizes(200);
    const Index tokens = any_size(1, 7), blocks = std::max<Index>(1, sizes.keys / tokens);
    AttentionOptions options = any_options(sizes, {});
    options.key_mask = {};
    options.causal = true;
    options.row_scale =
        *rc::gen::element(RowScale::one, RowScale::inverse_norm, RowScale::inverse_sqrt_length);
    if (options.row_scale == RowScale::inverse_norm) options.cap = 0;
    const Index pooled_heads = any_size(0, 1) == 1 ? 1 : sizes.heads;
    std::vector<CheckedInput> inputs =
        normal_inputs("pooled" + std::to_string(any_size(0, 1000)),
                      std::vector<Shape>{{sizes.batch, sizes.queries, sizes.heads, sizes.qk_width},
                                         {sizes.batch, sizes.keys, sizes.kv_heads, sizes.qk_width},
                                         {sizes.batch, sizes.keys, sizes.kv_heads, sizes.v_width},
                                         {sizes.batch, blocks, pooled_heads, sizes.qk_width},
                                         {sizes.batch, blocks, pooled_heads, sizes.v_width}});
    if (options.row_scale != RowScale::one) {
      for (CheckedInput& input : inputs) {
        for (Real& x : input.values) x = Real{0.5} + std::abs(x);
      }
    }
    const Index most = any_size(0, 6);  // 0: all
    const std::vector<std::int32_t> picked = any_picks(sizes, blocks, tokens, most);
    const auto of = [&](const auto& attend) {
      return [=, &picked](Tape&, Inputs x) {
        AttentionOptions with_pooled = options;
        with_pooled.pooled = {.keys = x[3], .values = x[4], .tokens = tokens};
        if (most > 0) with_pooled.pooled->picked = PickedRows{picked.data(), most};
        return attend(x[0], x[1], x[2], with_pooled);
      };
    };
    const auto fused = [](Var q, Var k, Var v, const AttentionOptions& o) {
      return attention(q, k, v, o);
    };
    RC_ASSERT(difference(evaluate(of(fused), inputs), evaluate(of(composed_attention), inputs)) <
              kComposedTolerance);
  }));
}

TEST(ComposedAttention, DropoutIsThatOfTheWeights) {
  EXPECT_TRUE(rc::check([] {
    Sizes sizes = any_sizes(10);
    sizes.keys *= 8;
    const auto mask = any_mask(sizes.batch * sizes.keys);
    AttentionOptions options = any_options(sizes, mask);
    options.dropout = *rc::gen::element(Real{0.1}, Real{0.5});
    agree(options, sizes.inputs("dropped" + std::to_string(any_size(0, 1000))));
  }));
}

}  // namespace
}  // namespace headcount
