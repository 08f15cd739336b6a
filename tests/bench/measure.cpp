#include "bench/measure.h"

#include <unistd.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>

#include "autograd/arena.h"
#include "autograd/parallel.h"
#include "train/statistics.h"

namespace headcount {

namespace {

using Packet = Eigen::internal::packet_traits<float>::type;
constexpr int kLanes = Eigen::internal::packet_traits<float>::size;
constexpr int kRegisters = 16;

// Multiply-adds on sixteen registers, which hides how long each one takes.
float fused_multiply_adds(Index count) {
  using namespace Eigen::internal;
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

}  // namespace

double milliseconds(const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  body();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double resident_megabytes() {
  double pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double multiply_add_gflops(int threads) {
  constexpr Index kCount = 2'000'000;
  const double ms = milliseconds([&] {
    parallel_chunks(threads, 1, [](Index, Index) {
      const volatile float kept = fused_multiply_adds(kCount);
      static_cast<void>(kept);
    });
  });
  return 2e-6 * static_cast<double>(threads) * kCount * kRegisters * kLanes / ms;
}

double read_bandwidth(double bytes) {
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
