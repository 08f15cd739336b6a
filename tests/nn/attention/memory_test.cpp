// Memory of a layer: what it refuses, and the trap for numbers that are not finite. Decoding is
// compared with the forward pass in models/.
#include "nn/attention/memory.h"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/checks/trap.h"
#include "nn/attention/costs.h"
#include "nn/attention/test_layer.h"
#include "support/message_of.h"

namespace headcount {
namespace {

TEST(Memory, OfACacheRefusesWhatTheLayerDoesNotDeclareAndRowsWhoseGradientItWouldLose) {
  LayerCache cache({{"k", 2, 3}, {.name = "state", .heads = 2, .width = 5, .per_sequence = true}},
                   {.capacity = 4});
  Tape tape;
  Memory memory(cache, 1);
  const auto constant = [&](const Shape& shape) {
    return tape.constant(shape, normal_values(1, shape.size()));
  };
  EXPECT_THROW(memory.keep("v", constant({1, 1, 2, 3})), ShapeError);
  for (const Shape& shape : {Shape{1, 1, 3, 2}, {2, 1, 2, 3}, {1, 2, 2, 3}})
    EXPECT_THROW(memory.keep("k", constant(shape)), ShapeError) << shape.text();
  EXPECT_THROW(memory.keep("k", tape.leaf({1, 1, 2, 3}, normal_values(1, 6))), ShapeError);
  EXPECT_THROW(memory.state("k", 2, 3), ShapeError);
  EXPECT_THROW(memory.state("s", 2, 5), ShapeError);
  EXPECT_THROW(cache.rows("state"), ShapeError);
}

TEST(Memory, OfALayerThatSharesRefusesWhatTheEarlierOneDidNotKeepAndRowsOfItsOwn) {
  Tape tape;
  const Var x = tape.leaf({1, 2, 2, 3}, normal_values(1, 12));
  Memory first;
  first.keep("k", x);
  const AttentionPlan plan = resolved(small_config("mha")).sharing({.rows = true});
  Memory second = Memory::sharing(first, first, plan);
  EXPECT_THROW(second.keep("v", [&] { return x; }), ShapeError);
  EXPECT_THROW(second.keep("k", x), ShapeError);
}

// Only attention reads cached rows: it must trap a number that is not finite.
TEST(Memory, OfACacheLetsTheTrapSeeWhatDecodingComputes) {
  const Layer layer(small_config("mha"));
  LayerCache cache = make_cache(layer.config, {.capacity = 9});
  cache.rows("k").write(0, 0, normal_values(1, 8).data());
  cache.rows("v").write(0, 0, Values(8, std::numeric_limits<Real>::infinity()).data());
  cache.set_length(1);
  Tape tape(layer.store);
  NonFiniteTrap trap;
  tape.watch({&trap});
  Memory memory(cache, 1);
  EXPECT_NE(message_of<NonFiniteError>([&] {
              layer.attention->forward(tape.constant({1, 1, 12}, normal_values(1, 12)), memory);
            }).find("op attention"),
            std::string::npos);
}

}  // namespace
}  // namespace headcount
