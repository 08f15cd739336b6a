#pragma once

#include <unistd.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>
#include <vector>

#include "autograd/arena.h"
#include "autograd/parallel.h"
#include "train/show/statistics.h"

/// Helpers that the benchmarks share.
namespace headcount {

/// Wall-clock time of one call.
template <class Body>
double milliseconds(const Body& body) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  body();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Memory of this process.
inline double resident_megabytes() {
  double pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// Peak of so many threads: GFLOP/s of multiply-adds that touch no memory, measured for about ten
/// milliseconds. Sixteen registers hide how long each one takes.
inline double multiply_add_gflops(int threads) {
  using namespace Eigen::internal;
  using Packet = packet_traits<float>::type;
  constexpr Index kCount = 2'000'000, kRegisters = 16;
  const double ms = milliseconds([&] {
    parallel_chunks(threads, 1, [](Index, Index) {
      const Packet factor = pset1<Packet>(0.999F), term = pset1<Packet>(0.001F);
      Packet sums[kRegisters];
      for (Index i = 0; i < kRegisters; ++i) sums[i] = pset1<Packet>(static_cast<float>(i));
      for (Index n = 0; n < kCount; ++n) {
#pragma GCC unroll 16
        for (Index i = 0; i < kRegisters; ++i) sums[i] = pmadd(sums[i], factor, term);
      }
      float total = 0;
      for (const Packet& sum : sums) total += predux(sum);
      const volatile float kept = total;
      static_cast<void>(kept);
    });
  });
  constexpr double kLanes = packet_traits<float>::size;
  return 2e-6 * static_cast<double>(threads * kCount * kRegisters) * kLanes / ms;
}

/// Bandwidth at which all threads together read `bytes` of memory again and again, bytes per
/// second: median of some rounds. Memory that fits into the processor's caches is read from there.
inline double read_bandwidth(double bytes) {
  constexpr Index kChunk = 1 << 16;
  const auto count = static_cast<Index>(bytes / sizeof(float)) / kChunk * kChunk;
  const AlignedMemory memory = allocate_aligned(static_cast<std::size_t>(count) * sizeof(float));
  auto* const numbers = reinterpret_cast<float*>(memory.get());
  std::fill_n(numbers, count, 1.0F);
  std::vector<float> sums(static_cast<std::size_t>(count / kChunk));
  std::vector<double> times;
  for (int round = 0; round < 15; ++round) {
    times.push_back(milliseconds([&] {
      parallel_chunks(count, kChunk, [&](Index begin, Index end) {
        constexpr Index kSums = 64;  // independent sums, so that nothing but memory limits
        float lanes[kSums] = {};
        for (Index i = begin; i < end; i += kSums) {
          for (Index lane = 0; lane < kSums; ++lane) lanes[lane] += numbers[i + lane];
        }
        // All lanes are added up: the compiler would leave out loads that nothing uses.
        sums[static_cast<std::size_t>(begin / kChunk)] =
            std::accumulate(lanes, lanes + kSums, 0.0F);
      });
    }));
  }
  const volatile float total = std::accumulate(sums.begin(), sums.end(), 0.0F);
  static_cast<void>(total);
  return 1e3 * static_cast<double>(count) * sizeof(float) / median(times);
}

}  // namespace headcount
