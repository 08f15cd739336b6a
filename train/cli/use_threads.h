#pragma once

#include "autograd/base/settings.h"

namespace headcount {

/// Parallel loops use `threads` threads from now on, 0: one per processor, as set_threads. Throws
/// Error where the system refuses so many, or where OMP_STACKSIZE or the limit on stacks leaves
/// them too little: both would end the process in the middle of its work.
void use_threads(Index threads);

/// The setting `threads`, and the threads that it says.
Setting threads_setting();
void use_threads(const Given& given);

}  // namespace headcount
