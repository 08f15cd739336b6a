#pragma once

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "models/checkpoint/durable.h"

namespace headcount {

/// Counts and logs the system calls while it lives, and makes one of them fail.
class Faults {
 public:
  // `error` from call number `failing_call` on (0 is the first), `times` times.
  explicit Faults(int failing_call = -1, int error = 0, int times = 1)
      : failing_call_(failing_call), error_(error), times_(times), saved_(system_calls()) {
    SystemCalls& calls = system_calls();
    calls.open = [this](const char* path, int flags, mode_t mode) {
      return fails("open") ? -1 : saved_.open(path, flags, mode);
    };
    calls.write = [this](int file, const void* bytes, std::size_t count) {
      return fails("write") ? -1 : saved_.write(file, bytes, std::min(count, longest_write));
    };
    calls.fsync = [this](int file) { return fails("fsync") ? -1 : saved_.fsync(file); };
    calls.close = [this](int file) {
      const int result = saved_.close(file);  // a failing close closes all the same
      return fails("close") ? -1 : result;
    };
    calls.rename = [this](const char* from, const char* to) {
      return fails("rename") ? -1 : saved_.rename(from, to);
    };
    calls.mkdir = [this](const char* path, mode_t mode) {
      return fails("mkdir") ? -1 : saved_.mkdir(path, mode);
    };
  }
  ~Faults() { system_calls() = saved_; }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  std::size_t longest_write = 1 << 20;
  std::vector<std::string> log;  // names of the calls that were let through
  bool failed = false;

  bool renamed() const { return std::ranges::count(log, "rename") > 0; }

 private:
  bool fails(const char* name) {
    const int call = number_++;
    if (call < failing_call_ || failing_call_ < 0 || call >= failing_call_ + times_) {
      log.push_back(name);
      return false;
    }
    failed = true;
    errno = error_;
    return true;
  }

  int failing_call_, error_, times_;
  int number_ = 0;
  SystemCalls saved_;
};

}  // namespace headcount
