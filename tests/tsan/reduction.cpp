// What the library does instead, in which the thread sanitizer must find nothing: each chunk writes
// its own sum, the sums are added in order, and what one loop wrote other threads read in the next.
#include <cstdio>
#include <numeric>
#include <vector>

#include "autograd/parallel.h"

using headcount::Index;

int main() {
  headcount::set_threads(2);
  std::vector<Index> sums(100), reversed(100);
  headcount::parallel_chunks(1000, 10, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) sums[static_cast<std::size_t>(begin / 10)] += i;
  });
  headcount::parallel_chunks(100, 1, [&](Index i, Index) {
    reversed[static_cast<std::size_t>(i)] = sums[static_cast<std::size_t>(99 - i)];
  });
  const Index sum = std::accumulate(reversed.begin(), reversed.end(), Index{0});
  std::printf("%td\n", sum);
  return sum == 499500 ? 0 : 1;
}
