#pragma once

#include "autograd/base/count.h"
#include "nn/attention/attention.h"

/// Declarations that layers with the delta rule share: `delta` and `kda`.
namespace headcount {

/// Sizes of such a layer.
struct DeltaSizes {
  explicit DeltaSizes(const AttentionPlan& plan);

  Index value_heads, key_heads, v_dim, k_dim, taps;

  Index group() const { return value_heads / key_heads; }
  // Channels; these throw if sizes overflow.
  Index keys() const { return (Count(key_heads) * k_dim).index(); }
  Index values() const { return (Count(value_heads) * v_dim).index(); }
  Index of_convolution() const { return (2 * Count(keys()) + values()).index(); }
};

SettingList delta_settings();
/// Throws ShapeError that names settings which do not fit together.
void check_delta(const AttentionPlan& plan);
/// The delta rule on q and k of unit length, q divided by sqrt(d) besides. Throws ShapeError if
/// there is a key mask.
Var delta_rule(Var q, Var k, Var v, Var g, Var beta, Memory& memory);

}  // namespace headcount
