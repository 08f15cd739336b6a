#pragma once

#include <rapidcheck.h>

#include <string>
#include <string_view>

#include "nn/test_layer.h"

/// Random layers and inputs for tests of attention.
namespace headcount {

/// Sizes of an input: up to three sequences of up to 80 tokens, more than a tile of 64.
struct Input {
  Index batch = *rc::gen::inRange<Index>(1, 4);
  Index length = *rc::gen::inRange<Index>(1, 81);

  Values values(Index dim) const { return normal_values(0, batch * length * dim); }
};

inline LayerConfig random_config(std::string_view kind, Index heads) {
  LayerConfig c;
  c.kind = kind;
  set(c, "heads", heads);
  set(c, "head-dim", 2 * *rc::gen::inRange<Index>(1, 9));
  c.dim = *rc::gen::inRange<Index>(1, 33);
  c.max_positions = 80;
  c.rotary = *rc::gen::arbitrary<bool>();
  c.bias = *rc::gen::arbitrary<bool>();
  if (!attention_kind(kind).attends) return c;
  c.causal = *rc::gen::arbitrary<bool>();
  set(c, "gate", *rc::gen::arbitrary<bool>());
  set(c, "score-scale",
      *rc::gen::element<std::string>("inv-sqrt", "qk-norm", "row-norm", "length"));
  return c;
}

inline Index random_heads() { return *rc::gen::element<Index>(1, 2, 3, 4, 6, 8); }

}  // namespace headcount
