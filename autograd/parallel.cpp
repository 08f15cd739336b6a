#include "autograd/parallel.h"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace headcount {

#ifdef _OPENMP

void set_threads(int threads) { omp_set_num_threads(threads > 0 ? threads : omp_get_num_procs()); }

int threads() { return omp_get_max_threads(); }

int this_thread() { return omp_get_thread_num(); }

#else  // one thread

void set_threads(int) {}

int threads() { return 1; }

int this_thread() { return 0; }

#endif

}  // namespace headcount
