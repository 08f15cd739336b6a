#pragma once

#include <functional>
#include <string>

/// Helpers that the benchmarks share.
namespace headcount {

/// Wall-clock time of one call.
double milliseconds(const std::function<void()>& body);

/// Resident memory in MB: "VmRSS" is that of now, "VmHWM" the peak so far.
double resident_megabytes(const std::string& field);

/// Calls `body` in a child process and waits for it. Call it before any thread was started.
void in_child(const std::function<void()>& body);

/// Peak of so many threads: GFLOP/s of multiply-adds that touch no memory, measured for about ten
/// milliseconds.
double multiply_add_gflops(int threads);

/// Bandwidth at which all threads together read `bytes` of memory again and again, bytes per
/// second: median of some rounds. Memory that fits into the processor's caches is read from there.
double read_bandwidth(double bytes);

}  // namespace headcount
