#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

/// What only some operating systems have: for Linux, for macOS, and for any other. All that is not
/// in POSIX is called in system.cpp. With HEADCOUNT_PORTABLE, Linux counts as any other system.
namespace headcount {

/// Size from which memory is worth huge pages, bytes.
#if defined(__linux__) && !defined(HEADCOUNT_PORTABLE)
inline constexpr std::size_t kHugePage = std::size_t{1} << 21;
#else
inline constexpr std::size_t kHugePage = std::numeric_limits<std::size_t>::max();
#endif

/// Asks for huge pages, which are faster to reach, for `bytes` of memory, aligned to kHugePage. The
/// system may refuse them; small pages serve then.
void ask_for_huge_pages(void* memory, std::size_t bytes);

/// Stack of the calling thread, bytes; none if the system does not say.
std::optional<std::size_t> stack_bytes();

/// Largest memory that this process has had so far, bytes; 0 if the system does not say.
double peak_memory();

/// Memory of the machine, bytes; 0 if the system does not say.
double machine_memory();

/// Name of the processor: "AMD EPYC 7763", or "unknown processor".
std::string processor_name();

/// Writes a file, or the names in a folder, to the disk itself, as fsync does: returns 0, or -1
/// with errno. On macOS, fsync leaves them in the disk's cache.
int flush_to_disk(int file);

}  // namespace headcount
