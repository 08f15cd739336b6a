// programs: autograd in_double
// The fused attention against its composition, with any options: values, and gradients of every
// input.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "autograd/any_attention.h"
#include "autograd/any_size.h"
#include "autograd/compositions.h"
#include "autograd/evaluation.h"

namespace headcount {
namespace {

void agree(Index shortest, Index longest) {
  const AnyAttention drawn =
      any_attention(any_size, shortest, longest, std::to_string(any_size(0, 1000)));
  const double error = difference(evaluate(drawn.with(fused_attention), drawn.inputs),
                                  evaluate(drawn.with(composed_attention), drawn.inputs));
  RC_LOG() << drawn.name << "difference " << error << "\n";
  RC_ASSERT(error < kComposedTolerance);
}

TEST(ComposedAttention, AnyOptionsAndShapes) {
  EXPECT_TRUE(rc::check([] {
    for (int i = 0; i < 3; ++i) agree(1, 40);
  }));
}

TEST(ComposedAttention, LengthsOfSeveralTiles) {
  EXPECT_TRUE(rc::check([] { agree(60, 200); }));
}

}  // namespace
}  // namespace headcount
