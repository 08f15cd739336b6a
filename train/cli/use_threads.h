#pragma once

#include "autograd/base/real.h"

namespace headcount {

/// Makes parallel loops use `threads` threads from now on, 0: one per processor. Throws Error if
/// the system refuses that many, or if OMP_STACKSIZE or the limit on stacks leaves them too little
/// stack: both would end the process in the middle of its work.
void use_threads(Index threads);

}  // namespace headcount
