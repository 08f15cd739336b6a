#pragma once

#include <string_view>

namespace headcount {

/// Every op of the engine. Each node records its op, and the gradient check fails if it has no test
/// case for an op.
enum class Op {
  leaf,
  parameter,
  add,
  subtract,
  multiply,
  divide,
  scale,
  sum,
  reshape,
  transpose,
  split,
  concat,
  matrix_product,
  linear,
  head_linear,
  embedding,
  layer_norm,
  rms_norm,
  gelu,
  silu,
  silu_gate,
  sigmoid_gate,
  sigmoid,
  softplus,
  exponential,
  dropout,
  rotary,
  softmax,
  attention,
  read_rows,
  causal_convolution,
  pool_tokens,
  pick_rows,
  index_loss,
  gated_delta_rule,
  cross_entropy,
  count_,
};

/// Name of an op in messages: "layer_norm" for Op::layer_norm.
std::string_view name(Op op);

}  // namespace headcount
