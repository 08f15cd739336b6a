// What the processor can do at most: multiply-adds that touch no memory, and reading memory.
// Usage: peak [THREADS]
#include <Eigen/Core>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "autograd/parallel.h"
#include "bench/measure.h"
#include "train/statistics.h"

namespace headcount {
namespace {

using Packet = Eigen::internal::packet_traits<float>::type;
constexpr int kLanes = Eigen::internal::packet_traits<float>::size;

// Multiply-adds on sixteen registers, which hides how long each one takes.
float fused_multiply_adds(Index count) {
  using namespace Eigen::internal;
  constexpr int kRegisters = 16;
  const Packet factor = pset1<Packet>(0.999F), term = pset1<Packet>(0.001F);
  Packet sums[kRegisters];
  for (int i = 0; i < kRegisters; ++i) sums[i] = pset1<Packet>(static_cast<float>(i));
  for (Index n = 0; n < count; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < kRegisters; ++i) sums[i] = pmadd(sums[i], factor, term);
  }
  float total = 0;
  for (int i = 0; i < kRegisters; ++i) total += predux(sums[i]);
  return total;
}

double peak_gflops(int threads) {
  constexpr Index kCount = 4'000'000;
  constexpr int kRounds = 15;
  volatile float kept = 0;
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    times.push_back(milliseconds([&] {
      parallel_chunks(threads, 1, [&](Index, Index) { kept = fused_multiply_adds(kCount); });
    }));
  }
  static_cast<void>(kept);
  return 2e-6 * static_cast<double>(threads) * kCount * 16 * kLanes / median(times);
}

}  // namespace
}  // namespace headcount

int main(int argc, char** argv) {
  using namespace headcount;
  const int most = argc > 1 ? std::atoi(argv[1]) : 0;
  set_threads(most);
  const int all = threads();
  std::printf("%d floats per register, medians of 15 rounds\n", kLanes);
  std::printf("%8s %9s %26s %8s\n", "threads", "GFLOP/s", "GB/s read from 1 MB each", "256 MB");
  for (int count = 1; count <= all; count = count == all ? all + 1 : std::min(all, 2 * count)) {
    set_threads(count);
    std::printf("%8d %9.1f %26.1f %8.1f\n", count, peak_gflops(count),
                1e-9 * read_bandwidth(count * double{1 << 20}),
                1e-9 * read_bandwidth(double{1 << 28}));
  }
}
