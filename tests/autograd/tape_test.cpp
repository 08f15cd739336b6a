#include "autograd/tape.h"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/checks/trap.h"
#include "autograd/ops.h"
#include "support/message_of.h"
#include "support/numbers.h"

namespace headcount {
namespace {

Var leaf(Tape& tape, const Shape& shape) {
  return tape.leaf(shape, normal_values("leaf", 0, shape.size()));
}

TEST(Tape, RefusesAVarOfAStepThatIsOver) {
  Tape tape;
  const Var old = leaf(tape, {3});
  tape.reset();
  const Var fresh = leaf(tape, {3});
  EXPECT_EQ(message_of<StaleVarError>([&] { add(fresh, old); }),
            "a Var was used after its tape was reset (step 0, now 1)");
  EXPECT_THROW(old.value(), StaleVarError);
  EXPECT_THROW(old.gradient(), StaleVarError);
  EXPECT_THROW(tape.backward(old), StaleVarError);
  EXPECT_EQ(fresh.value().size(), 3u);
}

TEST(Tape, RefusesAVarOfAnotherTapeAConstantAndACotangentOfAnotherSize) {
  Tape tape, other;
  const Var mine = leaf(tape, {3}), foreign = leaf(other, {3});
  EXPECT_THROW(mine + foreign, StaleVarError);
  EXPECT_THROW(tape.backward(foreign), StaleVarError);
  EXPECT_THROW(silu(Var{}), StaleVarError);
  EXPECT_THROW(Var{}.value(), StaleVarError);
  EXPECT_THROW(tape.backward(silu(tape.constant({1}, Values{1}))), ShapeError);
  EXPECT_THROW(tape.backward(silu(mine), Values{1}), ShapeError);
  EXPECT_THROW(tape.leaf({3}, Values{1, 2}), ShapeError);
}

TEST(Tape, GivesNoGradientToConstantsAndToWhatTheOutputDoesNotDependOn) {
  Tape tape;
  const Values values = {2, 3};
  const Var x = tape.leaf({2}, values), unused = tape.leaf({2}, values);
  const Var constant = tape.constant({2}, values), intermediate = x * constant;
  silu(unused);
  tape.backward(silu(intermediate));
  EXPECT_EQ(x.gradient().size(), 2u);
  EXPECT_TRUE(unused.gradient().empty());
  EXPECT_TRUE(constant.gradient().empty());
  EXPECT_TRUE(intermediate.gradient().empty()) << "it died once it was used";
}

std::size_t gradient_bytes_of_chain(int layers) {
  Tape tape;
  Var x = leaf(tape, {100, 32});
  const Var weight = tape.constant({32, 32}, normal_values("weight", 0, 32 * 32));
  for (int i = 0; i < layers; ++i) x = x + silu(linear(x, weight));
  tape.backward(x);
  return tape.gradient_capacity();
}

TEST(TapeMemory, OfGradientsIsThatOfAFewLayersHoweverDeepTheChain) {
  constexpr std::size_t kBuffer = 100 * 32 * sizeof(Real);
  EXPECT_LE(gradient_bytes_of_chain(50), 4 * kBuffer);
  EXPECT_EQ(gradient_bytes_of_chain(50), gradient_bytes_of_chain(3));
}

// One training step.
void step(Tape& tape, Index length) {
  tape.reset();
  Var x = leaf(tape, {2, length, 4, 8});
  for (int layer = 0; layer < 3; ++layer)
    x = x + silu(attention(x, x, x, {.scale = Real{0.5}, .dropout = Real{0.1}}));
  tape.backward(dropout(x, Real{0.1}));
}

TEST(TapeMemory, IsNotTakenFromTheHeapAgainAtEqualShapes) {
  Tape tape;
  tape.set_training(true);
  step(tape, 100);
  EXPECT_GT(tape.heap_allocations(), 0u);
  step(tape, 100);
  const std::size_t allocations = tape.heap_allocations(), capacity = tape.memory_capacity();
  for (const Index length : {100, 100, 37}) step(tape, length);  // a smaller one fits, too
  EXPECT_EQ(tape.heap_allocations(), allocations);
  EXPECT_EQ(tape.memory_capacity(), capacity);
}

TEST(Trap, NamesTheOpAndShapesOfANonFiniteValueAndGradient) {
  const Values ones = {1, 1, 1, 1, 1, 1}, zero = {1, 1, 1, 1, 0, 1};
  NonFiniteTrap trap, trap_of_store;
  Tape tape;
  tape.watch({&trap});
  const Var a = tape.leaf({2, 3}, ones), b = tape.constant({2, 3}, zero);
  EXPECT_EQ(message_of<NonFiniteError>([&] { a / b; }),
            "op divide ([2, 3], [2, 3]) -> [2, 3], node 2: the value is inf at element 4");
  ParameterStore store;
  constexpr auto kTiny = static_cast<double>(std::numeric_limits<Real>::min());  // its square is 0
  const ParameterId id = store.add("b", {2}, {Initializer::Kind::constant, kTiny, 0});
  store.allocate();
  store.initialize(1);
  Tape of_store(&store);
  of_store.watch({&trap_of_store});
  const Var x = of_store.constant({2}, store.value(id)), ratio = x / of_store.parameter(id);
  EXPECT_EQ(message_of<NonFiniteError>([&] { of_store.backward(ratio); }),
            "op divide ([2], b [2]) -> [2], node 2: the gradient of input 1 is -inf at element 0");
}

}  // namespace
}  // namespace headcount
