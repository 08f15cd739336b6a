// A race that the thread sanitizer must report: chunks of one loop add to the same number.
#include <cstdio>

#include "autograd/parallel.h"

int main() {
  headcount::set_threads(2);
  headcount::Index sum = 0;
  headcount::parallel_chunks(1000, 10, [&](headcount::Index begin, headcount::Index end) {
    for (headcount::Index i = begin; i < end; ++i) sum += i;
  });
  std::printf("%td\n", sum);
}
