#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <functional>
#include <new>

// Sanitizers map far more memory than they use, and no limit suits them. Other systems than Linux
// heed no limit.
#if defined(__linux__) && !defined(HEADCOUNT_SANITIZED)
#define HEADCOUNT_MEMORY_LIMIT

namespace headcount {

inline constexpr int kOutOfMemory = 1;

/// Runs `action` with at most `more` bytes of memory beyond those that the process has, and ends
/// the process: with 0, or with kOutOfMemory if the memory did not suffice. For EXPECT_EXIT.
[[noreturn]] inline void run_with_memory(std::size_t more, const std::function<void()>& action) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit = {pages * static_cast<std::size_t>(getpagesize()) + more, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
  try {
    action();
  } catch (const std::bad_alloc&) {
    _exit(kOutOfMemory);
  }
  _exit(0);
}

}  // namespace headcount

#endif
