#include "autograd/tape.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "autograd/ops.h"
#include "autograd/parallel.h"
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
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { old.value(); }, [&] { old.gradient(); }, [&] { old.shape(); }, [&] { silu(old); },
           [&] { add(fresh, old); }, [&] { tape.backward(old); }}) {
    EXPECT_EQ(message_of<StaleVarError>(use),
              "a Var was used after its tape was reset (step 0, now 1)");
  }
  EXPECT_EQ(fresh.value().size(), 3u);
}

TEST(Tape, ResetToValuesKeepsThoseAloneAsConstants) {
  Tape tape;
  const Var x = leaf(tape, {3});
  const Var y = scale(x, 2);
  const Values values_of_x = copy(x.value()), values_of_y = copy(y.value());
  Var first = y, second = reshape(x, {3, 1});
  Var* const kept[] = {&first, &second};
  tape.reset_to(kept);
  EXPECT_EQ(first.shape(), Shape{3});
  EXPECT_EQ(copy(first.value()), values_of_y);
  EXPECT_EQ(second.shape(), (Shape{3, 1}));
  EXPECT_EQ(copy(second.value()), values_of_x);
  EXPECT_FALSE(tape.needs_gradient(first));
  EXPECT_THROW(x.value(), StaleVarError);
  EXPECT_THROW(y.value(), StaleVarError);
}

TEST(Tape, ResetToEachOfManyValuesTakesTheMemoryOfOne) {
  constexpr Index kCount = 1 << 16;
  Tape tape;
  Var x = tape.constant({kCount}, Values(kCount, 1));
  const auto keep_scaled = [&](Real factor) {
    x = scale(x, factor);
    Var* const kept[] = {&x};
    tape.reset_to(kept);
  };
  keep_scaled(2);
  const std::size_t capacity = tape.memory_capacity();
  for (int i = 0; i < 20; ++i) keep_scaled(1);
  EXPECT_EQ(tape.memory_capacity(), capacity);
  EXPECT_EQ(x.value()[kCount - 1], 2);
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

// Memory.

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

// One training step of a tiny transformer.
void step(Tape& tape, ParameterStore& store, Index length) {
  tape.reset();
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(2 * length), 3);
  const Var table = tape.parameter(store.find("table"));
  const Var weight = tape.parameter(store.find("weight"));
  const Var x = embedding(table, ids, {2, length});
  const std::array<Index, 3> sizes = {16, 8, 8};
  const auto qkv = split(linear(rms_norm(x, std::nullopt, Real{1e-6}), weight), sizes);
  const Var attended =
      attention(reshape(qkv[0], {2, length, 4, 4}), reshape(qkv[1], {2, length, 2, 4}),
                reshape(qkv[2], {2, length, 2, 4}), {.scale = Real{0.5}, .dropout = Real{0.1}});
  const Var y = x + dropout(reshape(attended, {2, length, 16}), Real{0.1});
  tape.backward(cross_entropy(linear(y, table), ids));
}

TEST(TapeMemory, IsNotTakenFromTheHeapAgainAtEqualShapes) {
  ParameterStore store;
  store.add("table", {300, 16}, Initializer::normal(0.1));
  store.add("weight", {32, 16}, Initializer::normal(0.1));
  store.allocate();
  store.initialize(1);
  Tape tape(&store);
  tape.set_training(true);
  step(tape, store, 100);
  EXPECT_GT(tape.heap_allocations(), 0u);
  step(tape, store, 100);
  const std::size_t allocations = tape.heap_allocations(), capacity = tape.memory_capacity();
  for (int i = 0; i < 5; ++i) step(tape, store, 100);
  step(tape, store, 37);  // a smaller one fits, too
  EXPECT_EQ(tape.heap_allocations(), allocations);
  EXPECT_EQ(tape.memory_capacity(), capacity);
}

// The trap for NaN and infinity.

TEST(Trap, NamesTheOpAndShapeOfANonFiniteValue) {
  const Values ones = {1, 1, 1, 1, 1, 1}, zero = {1, 1, 1, 1, 0, 1};
  Tape tape;
  tape.trap_non_finite(true);
  const Var a = tape.leaf({2, 3}, ones), b = tape.constant({2, 3}, zero);
  EXPECT_EQ(message_of<NonFiniteError>([&] { a / b; }),
            "op divide ([2, 3], [2, 3]) -> [2, 3], node 2: the value is inf at element 4");
}

TEST(Trap, NamesTheOpAndShapeOfANonFiniteGradientOfAValueAndOfAParameter) {
  const Values tiny(2, std::numeric_limits<Real>::min());  // its square is 0
  ParameterStore store;
  const ParameterId unused = store.add("unused", {2}, Initializer::ones());
  const ParameterId id =
      store.add("b", {2}, {Initializer::Kind::constant, static_cast<double>(tiny[0]), 0});
  store.allocate();
  store.initialize(1);
  for (const bool of_a_parameter : {false, true}) {
    Tape tape(&store);
    tape.trap_non_finite(true);
    const Var a = tape.constant({2}, tiny);
    const Var other = of_a_parameter ? tape.parameter(unused) : tape.leaf({2}, tiny);
    const Var b = of_a_parameter ? tape.parameter(id) : scale(other, 1);
    EXPECT_EQ(message_of<NonFiniteError>([&] { tape.backward(a / b); }),
              std::string("op divide ([2], ") + (of_a_parameter ? "b " : "") +
                  "[2]) -> [2], node 3: the gradient of input 1 is -inf at element 0");
  }
}

TEST(Trap, OfOneShardEndsTheTasksOfAll) {
  const Values ones = {1, 1}, zeros = {0, 0};
  std::array<Tape, 2> shards;
  const auto divide = [&](Index task, int) {
    Tape& shard = shards[static_cast<std::size_t>(task)];
    shard.trap_non_finite(true);
    shard.leaf({2}, ones) / shard.constant({2}, task == 0 ? ones : zeros);
  };
  EXPECT_EQ(message_of<NonFiniteError>([&] { parallel_tasks(2, 2, divide); }),
            "op divide ([2], [2]) -> [2], node 2: the value is inf at element 0");
}

TEST(Tape, LetsNonFiniteNumbersPassWithoutTheTrap) {
  Tape tape;
  EXPECT_NO_THROW(tape.backward(tape.leaf({1}, Values{1}) / tape.leaf({1}, Values{0})));
}

TEST(Tape, EveryOpHasAName) {
  std::set<std::string_view> names;
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) names.insert(name(static_cast<Op>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Op::count_)) << "no two share one";
  EXPECT_EQ(names.count(name(Op::count_)), 0u) << "none is nameless";
  EXPECT_EQ(name(Op::layer_norm), "layer_norm");
}

}  // namespace
}  // namespace headcount
