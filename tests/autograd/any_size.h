#pragma once

#include <rapidcheck.h>

#include "autograd/shape.h"

namespace headcount {

/// A size from `least` to `most`, chosen by rapidcheck: from all of the range from the first test
/// on, where rapidcheck would begin with its lower end.
inline Index any_size(Index least, Index most) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(least, most + 1));
}

}  // namespace headcount
