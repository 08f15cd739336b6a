#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <new>

// Sanitizers map far more memory than they use, and no limit suits them.
#ifndef HEADCOUNT_SANITIZED
#define HEADCOUNT_MEMORY_LIMIT

namespace headcount {

/// Runs `action` with at most `more` bytes of memory beyond those that the process has, and ends
/// the process. The exit code is 0 if the memory sufficed exactly when `enough` is true, otherwise
/// 1. For EXPECT_EXIT.
[[noreturn]] inline void run_with_memory(std::size_t more, bool enough,
                                         const std::function<void()>& action) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit = {pages * static_cast<std::size_t>(getpagesize()) + more, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  try {
    action();
    _exit(enough ? 0 : 1);
  } catch (const std::bad_alloc&) {
    _exit(enough ? 1 : 0);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  _exit(1);
}

/// `run_with_memory` for an action that must run out of memory and say so.
[[noreturn]] inline void expect_out_of_memory(std::size_t more,
                                              const std::function<void()>& action) {
  run_with_memory(more, false, action);
}

/// `run_with_memory` for an action that must not run out of memory.
[[noreturn]] inline void expect_enough_memory(std::size_t more,
                                              const std::function<void()>& action) {
  run_with_memory(more, true, action);
}

}  // namespace headcount

#endif
