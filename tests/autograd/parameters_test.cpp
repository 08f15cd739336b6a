#include "autograd/parameters.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/cache/stored_rows.h"
#include "autograd/ops.h"
#include "support/message_of.h"
#include "support/numbers.h"

namespace headcount {
namespace {

TEST(Parameters, OfEqualNamesStartEqualWhateverElseThereIs) {
  ParameterStore small, large;
  const ParameterId alone = small.add("layer.weight", {5, 7}, Initializer::normal(0.02));
  large.add("embedding", {11, 3}, Initializer::normal(1));
  const ParameterId among = large.add("layer.weight", {5, 7}, Initializer::normal(0.02));
  const ParameterId other = large.add("layer.other", {5, 7}, Initializer::normal(0.02));
  for (ParameterStore* store : {&small, &large}) {
    store->allocate();
    store->initialize(4);
  }
  EXPECT_EQ(copy(small.value(alone)), copy(large.value(among)));
  EXPECT_NE(copy(large.value(among)), copy(large.value(other)));
  const Values before = copy(small.value(alone));
  small.initialize(5);
  EXPECT_NE(copy(small.value(alone)), before) << "another seed";
}

TEST(Parameters, AreFoundByNameAndRefusedBeforeTheyHaveMemory) {
  ParameterStore store;
  const ParameterId a = store.add("a", {2}, Initializer::ones());
  const ParameterId b = store.add("b", {2, 3}, Initializer::ones());
  EXPECT_EQ(store.find("b").index, b.index);
  EXPECT_EQ(store.name(b), "b");
  EXPECT_EQ(store.element_count(), 8);
  EXPECT_TRUE(store.decays(b));
  EXPECT_FALSE(store.decays(a)) << "vectors do not decay";
  EXPECT_EQ(message_of<ShapeError>([&] { store.find("c"); }), "the model has no parameter c");
  EXPECT_THROW(store.add("a", {3}, Initializer::ones()), ShapeError) << "the name is taken";
  EXPECT_THROW(store.value(a), ShapeError);
  EXPECT_THROW(store.gradient(a), ShapeError);
  EXPECT_THROW(store.complete_gradients(), ShapeError);
  store.allocate();
  EXPECT_THROW(store.add("c", {3}, Initializer::ones()), ShapeError) << "it comes too late";
}

TEST(Parameters, AreRoundedInBf16AloneWhileARoundedLives) {
  ParameterStore store;
  store.add("a", {3}, Initializer::ones());
  const ParameterId b = store.add("b", {40}, Initializer::normal(1));
  store.allocate();
  store.initialize(1);
  {
    const ParameterStore::Rounded none(store);
    EXPECT_EQ(store.rounded(b), nullptr) << "the precision is f32";
  }
  store.set_precision(Precision::bf16);
  EXPECT_EQ(store.rounded(b), nullptr);
  for (const Real factor : {1, 3}) {
    for (Real& value : store.value(b)) value *= factor;
    const ParameterStore::Rounded now(store);
    const Values values = copy(store.value(b));
    EXPECT_EQ(Values(store.rounded(b), store.rounded(b) + 40), stored(CacheType::bf16, values));
  }
  EXPECT_EQ(store.rounded(b), nullptr);
}

TEST(Parameters, LieInOneBufferWithZerosBetween) {
  ParameterStore store;
  const ParameterId a = store.add("a", {3}, Initializer::ones());
  const ParameterId b = store.add("b", {5}, Initializer::ones());
  store.allocate();
  store.initialize(1);
  for (const ParameterId id : {a, b}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(store.value(id).data()) % kAlignment, 0u);
  }
  double total = 0;
  for (const Real x : store.all_values()) total += static_cast<double>(x);
  EXPECT_EQ(total, 8) << "the padding must be zero";
  EXPECT_EQ(store.complete_gradients().size(), store.all_values().size());
}

// Gradients of sum(w * x) with respect to w: x each time.
class ParameterGradients : public testing::Test {
 protected:
  ParameterGradients() {
    used = store.add("used", {2}, Initializer::ones());
    unused = store.add("unused", {2}, Initializer::ones());
    store.allocate();
    store.initialize(1);
  }
  void backward(Real x, Real cotangent = 1) {
    tape.reset();
    const Real weights[] = {cotangent, cotangent};
    tape.backward(tape.parameter(used) * tape.constant({2}, Values{x, 2 * x}), weights);
  }
  ParameterStore store;
  ParameterId used, unused;
  Tape tape{&store};
};

// NaN would survive an addition, or a multiplication by 0: the first contribution is assigned.
TEST_F(ParameterGradients, AddUpOverSeveralPassesAndBeginAnewOnceCleared) {
  backward(1);
  backward(10);
  EXPECT_EQ(copy(store.gradient(used)), (Values{11, 22}));
  EXPECT_TRUE(store.gradient(unused).empty());
  backward(1, std::numeric_limits<Real>::quiet_NaN());
  EXPECT_TRUE(std::isnan(store.gradient(used)[0]));
  store.clear_gradients();
  EXPECT_TRUE(store.gradient(used).empty());
  backward(3);
  EXPECT_EQ(copy(store.gradient(used)), (Values{3, 6}));
}

TEST_F(ParameterGradients, AreZeroWhereNoneArrivedOnceCompleted) {
  backward(1, std::numeric_limits<Real>::quiet_NaN());
  store.clear_gradients();
  EXPECT_TRUE(std::ranges::all_of(store.complete_gradients(), [](Real x) { return x == 0; }))
      << "nothing of an earlier step is left";
  EXPECT_EQ(copy(store.gradient(used)), Values(2, 0));
  backward(2);
  EXPECT_EQ(store.complete_gradients().data(), store.gradient(used).data());
  EXPECT_EQ(copy(store.gradient(used)), (Values{2, 4})) << "what arrived stays";
}

TEST_F(ParameterGradients, AreNotComputedOnATapeOfAConstStore) {
  Tape evaluation(std::as_const(store));
  const Var w = evaluation.parameter(used);
  EXPECT_EQ(copy(w.value()), Values(2, 1));
  EXPECT_THROW(evaluation.backward(scale(w, 2)), ShapeError);
  EXPECT_TRUE(w.gradient().empty());
}

}  // namespace
}  // namespace headcount
