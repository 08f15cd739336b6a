#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nn/attention/test_layer.h"
#include "nn/attention/variants.h"

namespace headcount {

/// Layer of the kind, for up to 150 tokens, with random values of its settings but for `left_out`,
/// which keep their defaults.
inline LayerConfig random_layer(const AttentionKind& kind,
                                const std::vector<std::string>& left_out = {}) {
  LayerConfig c;
  c.kind = kind.name;
  c.dim = *rc::gen::inRange<Index>(1, 40);
  c.max_positions = 150;
  c.bias = *rc::gen::arbitrary<bool>();
  for (const auto& [name, values] : variants(kind)) {
    const bool is_setting = find_setting(attention_settings(), name) != nullptr;
    if (is_setting && !std::ranges::count(left_out, name))
      set(c, name, *rc::gen::elementOf(values));
  }
  reconcile(c.given);
  return c;
}

}  // namespace headcount
