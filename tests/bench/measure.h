#pragma once

#include <functional>

/// Helpers that the benchmarks share.
namespace headcount {

/// Wall-clock time of one call.
double milliseconds(const std::function<void()>& body);

double resident_megabytes();  ///< memory of this process

/// Peak of so many threads: GFLOP/s of multiply-adds that touch no memory, measured for about ten
/// milliseconds.
double multiply_add_gflops(int threads);

/// Bandwidth at which all threads together read `bytes` of memory again and again, bytes per
/// second: median of some rounds. Memory that fits into the processor's caches is read from there.
double read_bandwidth(double bytes);

}  // namespace headcount
