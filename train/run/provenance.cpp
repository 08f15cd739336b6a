#include "train/run/provenance.h"

#include <sys/utsname.h>

#include <Eigen/Core>
#include <thread>

#include "autograd/base/system.h"
#include "autograd/base/text.h"
#include "autograd/products/products.h"

namespace headcount {

std::string version_text() {
#if defined(__clang__)
  const std::string compiler =
      formatted("Clang %d.%d.%d", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string compiler = "GCC " __VERSION__;
#endif
#ifdef _OPENMP
  const std::string threads = formatted("OpenMP %d", _OPENMP);
#else
  const std::string threads = "one thread";
#endif
  return formatted("headcount %s, %s, %s, Eigen %d.%d.%d, %s, products by %s, %s",
                   HEADCOUNT_VERSION, compiler.c_str(), Eigen::SimdInstructionSetsInUse(),
                   EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION, threads.c_str(),
                   gemm_library().c_str(), sizeof(Real) == sizeof(float) ? "float" : "double");
}

std::string machine_text() {
  utsname system{};
  uname(&system);
  return formatted("%s, %u processors, %.0f GB, %s %s", processor_name().c_str(),
                   std::thread::hardware_concurrency(), machine_memory() / 1e9, system.sysname,
                   system.release);
}

}  // namespace headcount
