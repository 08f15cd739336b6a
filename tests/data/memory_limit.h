#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <new>

// Sanitizers map far more memory than they use, and no limit suits them.
#ifndef HEADCOUNT_SANITIZED
#define HEADCOUNT_MEMORY_LIMIT

namespace headcount {

/// Runs `action` with at most `more` bytes of memory beyond those that the process has, and ends
/// the process: with 0 if the memory sufficed exactly when `enough` is true. For EXPECT_EXIT.
[[noreturn]] inline void run_with_memory(std::size_t more, bool enough,
                                         const std::function<void()>& action) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit = {pages * static_cast<std::size_t>(getpagesize()) + more, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  bool sufficed = true;
  try {
    action();
  } catch (const std::bad_alloc&) {
    sufficed = false;
  }
  _exit(sufficed == enough ? 0 : 1);
}

[[noreturn]] inline void expect_out_of_memory(std::size_t more,
                                              const std::function<void()>& action) {
  run_with_memory(more, false, action);
}
[[noreturn]] inline void expect_enough_memory(std::size_t more,
                                              const std::function<void()>& action) {
  run_with_memory(more, true, action);
}

}  // namespace headcount

#endif
