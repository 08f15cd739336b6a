#pragma once

#include "autograd/parameters.h"
#include "autograd/random.h"

namespace headcount {

/// Allocates a store and fills it with N(initial mean, 0.4), large enough that a softmax is far
/// from uniform and that no bias or norm weight stays at 0 or 1. The numbers of a parameter depend
/// on its name alone.
inline void draw_weights(ParameterStore& store) {
  store.allocate();
  store.initialize(1);
  for (std::size_t i = 0; i < store.size(); ++i) {
    const RandomKey key{2, random_stream(store.name({i})), 0};
    std::uint64_t index = 0;
    for (Real& x : store.value({i}))
      x += Real{0.4} * static_cast<Real>(random_normal(key, index++));
  }
}

}  // namespace headcount
