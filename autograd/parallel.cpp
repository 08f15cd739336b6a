#include "autograd/parallel.h"

#include <omp.h>

namespace headcount {

void set_threads(int threads) { omp_set_num_threads(threads > 0 ? threads : omp_get_num_procs()); }

int threads() { return omp_get_max_threads(); }

int this_thread() { return omp_get_thread_num(); }

}  // namespace headcount
