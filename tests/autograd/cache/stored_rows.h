#pragma once

#include "autograd/cache/row_cache.h"
#include "support/numbers.h"

namespace headcount {

/// Numbers after a cache of that format has stored them as one row.
inline std::vector<Real> stored(const CacheFormat& format, const std::vector<Real>& row) {
  RowCache cache(1, 1, std::ssize(row), 1, format);
  cache.write(0, 0, row.data());
  std::vector<Real> scratch(row.size());
  const ConstMatrix read = cache.read(0, 0, 0, 1, 0, std::ssize(row), scratch.data());
  return {read.data, read.data + read.cols};
}

}  // namespace headcount
