#pragma once

#include <functional>
#include <string>

/// What the benchmarks share.
namespace headcount {

/// Wall-clock time of one call.
double milliseconds(const std::function<void()>& body);

/// Resident memory in MB: "VmRSS" now, "VmHWM" at most so far.
double resident_megabytes(const std::string& field);

/// Calls `body` in a child process and waits for it; before any threads were started here.
void in_child(const std::function<void()>& body);

/// What so many threads can do at most: GFLOP/s of multiply-adds that touch no memory, measured for
/// about ten milliseconds.
double multiply_add_gflops(int threads);

/// Bytes per second at which all threads together read `bytes` of memory, over and over: median of
/// some rounds. What fits into the processor's caches is read from there.
double read_bandwidth(double bytes);

}  // namespace headcount
