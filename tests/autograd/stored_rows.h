#pragma once

#include <vector>

#include "autograd/random.h"
#include "autograd/row_cache.h"

namespace headcount {

/// `count` normal numbers with a deviation of `size`.
inline std::vector<Real> normal_numbers(std::uint32_t seed, Index count, double size = 1) {
  std::vector<Real> numbers;
  for (Index i = 0; i < count; ++i)
    numbers.push_back(
        static_cast<Real>(size * random_normal({seed, 3, 0}, static_cast<std::uint64_t>(i))));
  return numbers;
}

/// Numbers after a cache of that format has stored them as one row.
inline std::vector<Real> stored(const CacheFormat& format, const std::vector<Real>& row) {
  RowCache cache(1, 1, std::ssize(row), 1, format);
  cache.write(0, 0, row.data());
  std::vector<Real> scratch(row.size());
  const ConstMatrix read = cache.read(0, 0, 0, 1, 0, std::ssize(row), scratch.data());
  return {read.data, read.data + read.cols};
}

}  // namespace headcount
