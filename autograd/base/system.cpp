#include "autograd/base/system.h"

#include <unistd.h>

#if defined(__linux__) && !defined(HEADCOUNT_PORTABLE)
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <fstream>
#elif defined(__APPLE__)
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#endif

namespace headcount {

namespace {

constexpr const char* kUnknownProcessor = "unknown processor";

}  // namespace

#if defined(__linux__) && !defined(HEADCOUNT_PORTABLE)

void ask_for_huge_pages(void* memory, std::size_t bytes) { madvise(memory, bytes, MADV_HUGEPAGE); }

std::optional<std::size_t> stack_bytes() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return std::nullopt;
  std::size_t size = 0;
  pthread_attr_getstacksize(&attributes, &size);
  pthread_attr_destroy(&attributes);
  return size;
}

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

double machine_memory() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return kUnknownProcessor;
}

int flush_to_disk(int file) { return fsync(file); }

#elif defined(__APPLE__)

void ask_for_huge_pages(void*, std::size_t) {}

std::optional<std::size_t> stack_bytes() { return pthread_get_stacksize_np(pthread_self()); }

double peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss);
}

double machine_memory() {
  unsigned long long bytes = 0;
  std::size_t size = sizeof bytes;
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? static_cast<double>(bytes)
                                                                    : 0;
}

std::string processor_name() {
  char name[256] = "";
  std::size_t size = sizeof name;
  return sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 ? name
                                                                                : kUnknownProcessor;
}

int flush_to_disk(int file) {
  // Network file systems, and folders, may know fsync only.
  return fcntl(file, F_FULLFSYNC) == 0 ? 0 : fsync(file);
}

#else

void ask_for_huge_pages(void*, std::size_t) {}
std::optional<std::size_t> stack_bytes() { return std::nullopt; }
double peak_memory() { return 0; }
double machine_memory() { return 0; }
std::string processor_name() { return kUnknownProcessor; }
int flush_to_disk(int file) { return fsync(file); }

#endif

}  // namespace headcount
