#include "train/interrupt.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

namespace headcount {
namespace {

std::int64_t now = 0;  // milliseconds

void catch_all() {
  // What runs the tests may ignore these.
  for (const int signal : {SIGHUP, SIGPIPE}) std::signal(signal, SIG_DFL);
  catch_interrupts([] { return now; });
}

TEST(Interrupt, IsTimedInMilliseconds) {
  const auto clock = [] {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
  };
  const std::int64_t before = clock(), read = steady_milliseconds(), after = clock();
  EXPECT_TRUE(before <= read && read <= after) << before << " " << read << " " << after;
}

// A handler leaves its frame on the stack of handlers: exits with 0 if that stack has changed.
[[noreturn]] void handle_one(int signal) {
  catch_all();
  stack_t stack = {};
  sigaltstack(nullptr, &stack);
  const std::span bytes(static_cast<const unsigned char*>(stack.ss_sp), stack.ss_size);
  const std::vector<unsigned char> before(bytes.begin(), bytes.end());
  std::raise(signal);
  std::_Exit(std::ranges::equal(before, bytes) ? 1 : 0);
}

// oneDNN keeps numbers of a product below the end of the stack, where another handler would write.
TEST(Interrupt, IsHandledOnAStackOfItsOwn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGPIPE})
    EXPECT_EXIT(handle_one(signal), testing::ExitedWithCode(0), "") << signal;
}

[[noreturn]] void interrupt(const std::vector<std::pair<std::int64_t, int>>& signals) {
  catch_all();
  for (const auto& [time, signal] : signals) {
    now = time;
    std::raise(signal);
  }
  std::_Exit(interrupt_signal() == signals.front().second ? 0 : 1);
}

// `timeout` sends its signal twice at once, and each line that is written to a broken pipe raises
// SIGPIPE again.
TEST(Interrupt, EndsTheProcessAtASecondSignalASecondLater) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(interrupt({{5, SIGINT}, {5, SIGTERM}, {1004, SIGHUP}, {9000, SIGPIPE}}),
              testing::ExitedWithCode(0), "");
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP})
    EXPECT_EXIT(interrupt({{5, SIGPIPE}, {1005, signal}}), testing::ExitedWithCode(128 + signal),
                "");
}

}  // namespace
}  // namespace headcount
