#include <gtest/gtest.h>

#include "autograd/evaluation.h"
#include "autograd/op_cases.h"
#include "autograd/parallel.h"

// The promise of the engine: the same bits for any number of threads.
namespace headcount {
namespace {

class ThreadsOfOp : public testing::TestWithParam<Op> {
 protected:
  void TearDown() override { set_threads(0); }
};
INSTANTIATE_TEST_SUITE_P(Determinism, ThreadsOfOp, testing::ValuesIn(all_ops()),
                         [](const auto& at) { return std::string(name(at.param)); });

TEST_P(ThreadsOfOp, GiveTheSameBits) {
  for (const OpCase& c : op_cases(GetParam(), CaseSize::several_chunks)) {
    set_threads(1);
    const Evaluation alone = evaluate(c.function, c.inputs);
    for (const int count : {2, 3, 8}) {
      set_threads(count);
      EXPECT_TRUE(bitwise_equal(evaluate(c.function, c.inputs), alone))
          << c.name << ", " << count << " threads, differs by "
          << difference(evaluate(c.function, c.inputs), alone);
    }
  }
}

TEST_P(ThreadsOfOp, GiveTheSameBitsWhenGradientsAddUp) {
  for (const OpCase& c : op_cases(GetParam(), CaseSize::several_chunks)) {
    set_threads(1);
    const Evaluation alone = evaluate(c.function, c.inputs, 2);
    set_threads(3);
    EXPECT_TRUE(bitwise_equal(evaluate(c.function, c.inputs, 2), alone)) << c.name;
  }
}

TEST(Threads, AreAsManyAsAskedFor) {
  set_threads(3);
  EXPECT_EQ(threads(), 3);
  set_threads(0);
  EXPECT_GE(threads(), 1);
}

// The borders of chunks, as a list of pairs.
std::vector<std::pair<Index, Index>> borders(Index count, Index chunk) {
  std::vector<std::pair<Index, Index>> result(static_cast<std::size_t>(count / chunk + 1));
  parallel_chunks(count, chunk, [&](Index begin, Index end) {
    result[static_cast<std::size_t>(begin / chunk)] = {begin, end};
  });
  return result;
}

TEST(Threads, DoNotMoveTheBordersOfChunks) {
  const std::vector<std::pair<Index, Index>> expected = {{0, 30}, {30, 60}, {60, 90}, {90, 100}};
  for (const int count : {1, 2, 7}) {
    set_threads(count);
    EXPECT_EQ(borders(100, 30), expected) << count << " threads";
  }
  set_threads(0);
}

}  // namespace
}  // namespace headcount
