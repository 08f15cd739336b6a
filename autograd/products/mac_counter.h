#pragma once

#include <cstdint>

namespace headcount {

/// Adds to the count of the MacCounter, for an op that multiplies without a matrix product.
void count_macs(std::int64_t macs);

/// Counts multiply-accumulates of all products while it lives. Use one at a time: a new one starts
/// the count at 0 again.
class MacCounter {
 public:
  MacCounter();
  ~MacCounter();
  MacCounter(const MacCounter&) = delete;
  MacCounter& operator=(const MacCounter&) = delete;
  std::int64_t count() const;
};

}  // namespace headcount
