#include <gtest/gtest.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "autograd/base/error.h"
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
INSTANTIATE_TEST_SUITE_P(Determinism, ThreadsOfOp, testing::ValuesIn(ops_with_cases()),
                         [](const auto& at) { return std::string(name(at.param)); });

// In two backward passes, of which the second adds its gradients to those of the first.
TEST_P(ThreadsOfOp, GiveTheSameBits) {
  for (const OpCase& c : op_cases(GetParam(), CaseSize::large)) {
    set_threads(1);
    const OpEvaluation alone = evaluate(c.function, c.inputs, 2);
    set_threads(3);
    const OpEvaluation together = evaluate(c.function, c.inputs, 2);
    EXPECT_TRUE(bitwise_equal(together, alone))
        << c.name << ", differs by " << difference(together, alone);
  }
}

#ifdef _OPENMP
TEST(Threads, AreAsManyAsAskedFor) {
  set_threads(3);
  EXPECT_EQ(threads(), 3);
  set_threads(0);
  EXPECT_EQ(threads(), omp_get_num_procs()) << "0 asks for one per processor";
}
#else
TEST(Threads, AreOneWithoutOpenMP) {
  set_threads(3);
  EXPECT_EQ(threads(), 1);
}
#endif

class Tasks : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_threads(GetParam()); }
  void TearDown() override { set_threads(0); }
};
INSTANTIATE_TEST_SUITE_P(Threads, Tasks, testing::Values(1, 2, 3, 8));

TEST_P(Tasks, RunOnceEachAndKeepTheirLoopsToThemselves) {
  constexpr Index kTasks = 7;
  std::vector<std::vector<Index>> begins(kTasks);
  std::vector<int> thread_of(kTasks, -1);
  parallel_tasks(kTasks, threads(), [&](Index task, int thread) {
    const auto at = static_cast<std::size_t>(task);
    thread_of[at] = thread;
    // Chunks run in order on one thread; otherwise this would be a race.
    parallel_chunks(100, 30, [&](Index begin, Index) { begins[at].push_back(begin); });
  });
  for (std::size_t task = 0; task < kTasks; ++task) {
    EXPECT_EQ(begins[task], (std::vector<Index>{0, 30, 60, 90})) << task;
    EXPECT_EQ(thread_of[task], static_cast<int>(task) % threads()) << task;
  }
  EXPECT_FALSE(OnOneThread::active());
}

TEST_P(Tasks, LeaveTheLoopsOfASingleOneParallelUnlessItIsOneOfManyElsewhere) {
  for (const Index all : {1, 2}) {
    bool bound = all == 1;
    parallel_tasks(
        1, threads(), [&](Index, int) { bound = OnOneThread::active(); }, all);
    EXPECT_EQ(bound, all > 1);
  }
}

TEST_P(Tasks, PassOnWhatOneOfThemThrowsOnceAllHaveEnded) {
  std::vector<int> ended(5, 0);
  EXPECT_THROW(parallel_tasks(5, threads(),
                              [&](Index task, int) {
                                if (task == 2) throw ShapeError("the third");
                                ended[static_cast<std::size_t>(task)] = 1;
                              }),
               ShapeError);
#ifdef _OPENMP
  EXPECT_EQ(ended, (std::vector<int>{1, 1, 0, 1, 1}));
#else
  EXPECT_EQ(ended, (std::vector<int>{1, 1, 0, 0, 0}));
#endif
  EXPECT_FALSE(OnOneThread::active());
}

}  // namespace
}  // namespace headcount
