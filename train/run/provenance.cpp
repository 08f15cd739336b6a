#include "train/run/provenance.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <Eigen/Core>
#include <fstream>
#include <thread>

#include "autograd/products.h"

namespace headcount {

std::string version_text() {
#if defined(__clang__)
  const std::string compiler = "Clang " + std::to_string(__clang_major__) + "." +
                               std::to_string(__clang_minor__) + "." +
                               std::to_string(__clang_patchlevel__);
#else
  const std::string compiler = "GCC " __VERSION__;
#endif
  return "headcount " HEADCOUNT_VERSION ", " + compiler + ", " + Eigen::SimdInstructionSetsInUse() +
         ", Eigen " + std::to_string(EIGEN_WORLD_VERSION) + "." +
         std::to_string(EIGEN_MAJOR_VERSION) + "." + std::to_string(EIGEN_MINOR_VERSION) +
         ", OpenMP " + std::to_string(_OPENMP) + ", products by " + name(gemm_library()) + ", " +
         (sizeof(Real) == sizeof(float) ? "float" : "double");
}

std::string machine_text() {
  std::string processor = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    processor = line.substr(line.find(':') + 2);
    break;
  }
  utsname system{};
  uname(&system);
  const double gigabytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e9;
  return processor + ", " + std::to_string(std::thread::hardware_concurrency()) + " processors, " +
         std::to_string(static_cast<int>(gigabytes + 0.5)) + " GB, " + system.sysname + " " +
         system.release;
}

}  // namespace headcount
