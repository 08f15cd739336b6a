#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "autograd/products.h"
#include "nn/attention/attention.h"
#include "nn/kinds_with_scores.h"
#include "nn/layer_config.h"

/// Helpers for tests of what layers cost.
namespace headcount::costs {

using Values = std::vector<Real>;

inline bool fits(const LayerConfig& config) {
  try {
    resolved(config);
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

/// A layer with sizes as they come; odd ones only where nothing is rotated.
inline LayerConfig random_layer(std::string_view kind) {
  const auto size = [](Index low, Index end) { return *rc::gen::inRange<Index>(low, end); };
  LayerConfig c;
  c.kind = kind;
  c.max_positions = 150;
  c.rotary = *rc::gen::arbitrary<bool>();
  const Index even = c.rotary ? 2 : 1;
  const Index heads = size(1, 7);
  set(c, "heads", heads);
  set(c, "head-dim", even * size(1, 9));
  c.dim = size(1, 40);
  const Index kv_heads = *rc::gen::suchThat(rc::gen::inRange<Index>(1, heads + 1),
                                            [&](Index g) { return heads % g == 0; });
  const Index latents = *rc::gen::element<Index>(1, heads);
  set(c, "kv-heads", kv_heads);
  set(c, "latents", latents);
  set(c, "kv-rank", latents * size(1, 20));
  set(c, "latent-scale", *rc::gen::arbitrary<bool>());
  set(c, "kv-factors", size(1, 4));
  set(c, "q-factors", size(1, 4));
  set(c, "tie-kv", *rc::gen::arbitrary<bool>());
  set(c, "q-rank", *rc::gen::element<Index>(0, size(1, 20)));
  set(c, "nope-dim", size(1, 12));
  do {  // heads that are rotated in part may be too narrow
    set(c, "rope-dim", even * size(0, 6));
  } while (!fits(c));
  set(c, "v-dim", size(1, 12));
  set(c, "o-groups", *rc::gen::element<Index>(1, heads));
  set(c, "o-rank", size(1, 12));
  set(c, "compress", size(1, 9));
  set(c, "index-heads", size(1, 5));
  set(c, "index-head-dim", 12 + even * size(0, 3));
  set(c, "index-topk", size(1, 12));
  set(c, "latent-norm", *rc::gen::arbitrary<bool>());
  set(c, "latent-dim", size(1, 12));
  set(c, "value-heads", heads * size(1, 3));
  set(c, "key-heads", kv_heads);
  set(c, "conv-taps", size(1, 6));
  c.bias = *rc::gen::arbitrary<bool>();
  set(c, "output-projection", *rc::gen::arbitrary<bool>());
  set(c, "gate", *rc::gen::arbitrary<bool>());
  set(c, "sinks", attention_kind(kind).attends && *rc::gen::arbitrary<bool>());
  set(c, "qk-norm", attention_kind(kind).no_qk_norm.empty() && *rc::gen::arbitrary<bool>());
  c.causal = !attention_kind(kind).attends || sees_all_before(attention_kind(kind));
  return c;
}

/// Multiply-accumulates of a forward pass over `batch` sequences of `length`.
inline std::int64_t counted_macs(const Attention& layer, const ParameterStore& store, Index dim,
                                 Index batch, Index length) {
  Tape tape(store);
  const Values x(static_cast<std::size_t>(batch * length * dim), Real{1});
  const Var input = tape.constant({batch, length, dim}, x);
  Memory memory;
  const MacCounter counter;
  layer.forward(input, memory);
  return counter.count();
}

}  // namespace headcount::costs
