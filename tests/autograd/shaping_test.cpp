#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <array>

#include "autograd/any_size.h"
#include "autograd/evaluation.h"
#include "autograd/ops.h"

// Where each element goes: a gradient check cannot tell, since the gradient goes the same way back.
namespace headcount {
namespace {

using Position = std::array<Index, 4>;

// Element of a rank 4 tensor; an extent of 1 is repeated.
Real at(Var x, const Position& position) {
  const Shape shape = x.shape();
  Index offset = 0;
  for (int i = 0; i < 4; ++i) {
    const Index p = position[static_cast<std::size_t>(i)];
    offset = offset * shape[i] + (shape[i] == 1 ? 0 : p);
  }
  return x.value()[static_cast<std::size_t>(offset)];
}

// Calls body with every position in a rank 4 shape.
template <class Body>
void for_each_position(const Shape& s, const Body& body) {
  for (Index offset = 0; offset < s.size(); ++offset) {
    body(Position{offset / (s[1] * s[2] * s[3]), offset / (s[2] * s[3]) % s[1],
                  offset / s[3] % s[2], offset % s[3]});
  }
}

class Shaping : public testing::Test {
 protected:
  Var of(const Shape& shape) {
    return tape.constant(shape, normal_values("shaping", stream++, shape.size()));
  }
  static Shape any_shape() {
    return {any_size(1, 5), any_size(1, 5), any_size(1, 5), any_size(1, 5)};
  }
  Tape tape;
  std::uint32_t stream = 0;
};

TEST_F(Shaping, TransposeExchangesTwoIndices) {
  EXPECT_TRUE(rc::check([this] {
    const Var x = of(any_shape());
    const Index first = any_size(0, 3), second = (first + any_size(1, 3)) % 4;
    const Var y = transpose(x, static_cast<int>(first), static_cast<int>(second));
    for_each_position(x.shape(), [&](const Position& from) {
      Position to = from;
      std::swap(to[static_cast<std::size_t>(first)], to[static_cast<std::size_t>(second)]);
      RC_ASSERT(at(y, to) == at(x, from));
    });
  }));
}

TEST_F(Shaping, ConcatPutsTheSecondBehindTheFirstAndRepeatsIt) {
  EXPECT_TRUE(rc::check([this] {
    const Shape left = any_shape();
    Shape right;
    for (int i = 0; i < 3; ++i) right.append(any_size(0, 1) == 0 ? 1 : left[i]);
    right.append(any_size(1, 4));
    const Var a = of(left), b = of(right), y = concat(a, b);
    RC_ASSERT(y.shape() == left.with_last(left[3] + right[3]));
    for_each_position(y.shape(), [&](const Position& p) {
      const Index behind = p[3] - left[3];
      RC_ASSERT(at(y, p) == (behind < 0 ? at(a, p) : at(b, {p[0], p[1], p[2], behind})));
    });
  }));
}

TEST_F(Shaping, SplitTakesColumnsInOrder) {
  EXPECT_TRUE(rc::check([this] {
    const std::array<Index, 3> sizes = {any_size(1, 4), any_size(1, 4), any_size(1, 4)};
    const Var x =
        of({any_size(1, 4), any_size(1, 4), any_size(1, 4), sizes[0] + sizes[1] + sizes[2]});
    const std::vector<Var> pieces = split(x, sizes);
    RC_ASSERT(pieces.size() == 3u);
    Index begin = 0;
    for (const Var piece : pieces) {
      for_each_position(piece.shape(), [&](const Position& p) {
        RC_ASSERT(at(piece, p) == at(x, {p[0], p[1], p[2], begin + p[3]}));
      });
      begin += piece.shape()[3];
    }
    RC_ASSERT(begin == x.shape()[3]);
  }));
}

TEST_F(Shaping, ReshapeKeepsTheElementsAndTheMemory) {
  const Var x = of({4, 6}), y = reshape(x, {2, 3, 4});
  EXPECT_EQ(y.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(y.value().data(), x.value().data());
}

TEST_F(Shaping, ArithmeticRepeatsTheSecondOverLeadingIndices) {
  EXPECT_TRUE(rc::check([this] {
    const Shape shape = any_shape();
    Shape trailing, repeated;  // the latter with the extents of 1 that `at` repeats
    const Index kept = any_size(0, 4);
    for (int i = 0; i < 4; ++i) repeated.append(i < 4 - kept ? 1 : shape[i]);
    for (int i = static_cast<int>(4 - kept); i < 4; ++i) trailing.append(shape[i]);
    const Var a = of(shape), b = of(trailing), z = reshape(b, repeated);
    const Var total = a + b, rest = a - b, product = a * b, ratio = a / b;
    for_each_position(shape, [&](const Position& p) {
      RC_ASSERT(at(total, p) == at(a, p) + at(z, p));
      RC_ASSERT(at(rest, p) == at(a, p) - at(z, p));
      RC_ASSERT(at(product, p) == at(a, p) * at(z, p));
      RC_ASSERT(at(ratio, p) == at(a, p) / at(z, p));
    });
  }));
}

TEST_F(Shaping, ScaleAndSumAreWhatTheySay) {
  const std::vector<Real> values = {1, -2, 4};
  const Var x = tape.constant({3}, values);
  EXPECT_EQ(sum(x).item(), 3);
  EXPECT_EQ(scale(x, Real{-0.5}).value()[1], 1);
}

}  // namespace
}  // namespace headcount
