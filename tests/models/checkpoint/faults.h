#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/checkpoint/durable.h"

namespace headcount {

/// Counts and logs the system calls while it lives, and makes one of them fail.
class Faults {
 public:
  // `error` from call number `failing_call` on (0 is the first), `times` times.
  explicit Faults(int failing_call = -1, int error = 0, int times = 1)
      : saved_(before_system_call()) {
    before_system_call() = [=, this, call = 0](std::string_view name, std::size_t& bytes) mutable {
      const int number = call++;
      if (failing_call >= 0 && number >= failing_call && number < failing_call + times) {
        failed = true;
        return error;
      }
      log.emplace_back(name);
      bytes = std::min(bytes, longest_write);
      return saved_ ? saved_(name, bytes) : 0;
    };
  }
  ~Faults() { before_system_call() = saved_; }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  std::size_t longest_write = 1 << 20;
  std::vector<std::string> log;  // names of the calls that were let through
  bool failed = false;

  bool renamed() const { return std::ranges::count(log, "rename") > 0; }

 private:
  std::function<int(std::string_view, std::size_t&)> saved_;
};

}  // namespace headcount
