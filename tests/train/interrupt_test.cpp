#include "train/interrupt.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "autograd/products.h"

namespace headcount {
namespace {

// Products of ones while signals arrive all the time; exits with 0 if all results are right.
// SIGPIPE, because a second of the others ends the process.
[[noreturn]] void multiply_among_signals() {
  catch_interrupts();
  std::atomic<bool> done = false;
  std::thread sender([&done, target = pthread_self()] {
    while (!done) {
      pthread_kill(target, SIGPIPE);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  while (!interrupted()) std::this_thread::yield();
  constexpr Index kRows = 192, kCols = 512, kDepth = 128;
  const std::vector<Real> a(kRows * kDepth, 1), b(kDepth * kCols, 1);
  const std::vector<Real> expected(kRows * kCols, Real{kDepth});
  std::vector<Real> c(kRows * kCols);
  bool right = true;
  for (int round = 0; round < 1000; ++round) {
    gemm({c.data(), kRows, kCols}, {a.data(), kRows, kDepth}, {b.data(), kDepth, kCols});
    right &= std::memcmp(c.data(), expected.data(), c.size() * sizeof(Real)) == 0;
  }
  done = true;
  sender.join();
  std::_Exit(right ? 0 : 1);
}

TEST(Interrupt, LeavesProductsAloneThatItComesInTheMiddleOf) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(multiply_among_signals(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void interrupt_twice() {
  catch_interrupts();
  std::raise(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(1001));
  std::raise(SIGINT);
  std::_Exit(0);
}

TEST(Interrupt, EndsTheProcessAtASecondSignalASecondLater) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(interrupt_twice(), testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace headcount
