#pragma once

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

/// Helpers of the files that call oneDNN. Not part of the public interface.
namespace headcount {

/// Scope guard: keeps oneDNN from starting threads of its own for a product outside of a parallel
/// loop.
class OneThreadOfOpenMP {
 public:
  OneThreadOfOpenMP() : before_(omp_get_max_threads()) { set(1); }
  ~OneThreadOfOpenMP() { set(before_); }
  OneThreadOfOpenMP(const OneThreadOfOpenMP&) = delete;
  OneThreadOfOpenMP& operator=(const OneThreadOfOpenMP&) = delete;

 private:
  void set(int threads) const {
    if (before_ != 1) omp_set_num_threads(threads);
  }
  int before_;
};

/// Throws Error that names the product's sizes unless `status` is success.
inline void check_onednn(dnnl_status_t status, Index rows, Index cols, Index k) {
  if (status == dnnl_success) return;
  throw Error("oneDNN could not multiply [", rows, ", ", k, "] by [", k, ", ", cols, "]: status ",
              status);
}

}  // namespace headcount
