// What the processor can do at most: multiply-adds that touch no memory, and reading memory.
// Usage: peak [THREADS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "train/show/statistics.h"

int main(int argc, char** argv) {
  using namespace headcount;
  set_threads(argc > 1 ? std::atoi(argv[1]) : 0);
  const int all = threads();
  std::printf("medians of 15 rounds\n");
  std::printf("%8s %9s %26s %8s\n", "threads", "GFLOP/s", "GB/s read from 1 MB each", "256 MB");
  for (int count = 1; count <= all; count = count == all ? all + 1 : std::min(all, 2 * count)) {
    set_threads(count);
    std::vector<double> gflops;
    for (int round = 0; round < 15; ++round) gflops.push_back(multiply_add_gflops(count));
    std::printf("%8d %9.1f %26.1f %8.1f\n", count, median(gflops),
                1e-9 * read_bandwidth(count * double{1 << 20}),
                1e-9 * read_bandwidth(double{1 << 28}));
  }
}
