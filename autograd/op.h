#pragma once

#include <cstddef>
#include <string_view>

namespace headcount {

// clang-format off
/// Every op of the engine, as `op(NAME)`: the one list of them. Each node records its op, and the
/// gradient check fails if it has no test case for an op.
#define HEADCOUNT_OPS(op) \
  op(leaf) op(parameter) op(add) op(subtract) op(multiply) op(divide) op(scale) op(sum) \
  op(reshape) op(transpose) op(split) op(concat) op(matrix_product) op(linear) op(head_linear) \
  op(embedding) op(layer_norm) op(rms_norm) op(gelu) op(silu) op(silu_gate) op(sigmoid_gate) \
  op(sigmoid) op(softplus) op(exponential) op(soft_cap) op(dropout) op(rotary) op(softmax) \
  op(attention) op(read_rows) op(causal_convolution) op(pool_tokens) op(pick_rows) op(index_loss) \
  op(gated_delta_rule) op(gated_linear_attention) op(cross_entropy)
// clang-format on

#define HEADCOUNT_OP(name) name,
enum class Op { HEADCOUNT_OPS(HEADCOUNT_OP) count_ };
#undef HEADCOUNT_OP

/// Name of an op in messages: "layer_norm" for Op::layer_norm.
constexpr std::string_view name(Op op) {
#define HEADCOUNT_OP(name) #name,
  constexpr std::string_view names[] = {HEADCOUNT_OPS(HEADCOUNT_OP)};
#undef HEADCOUNT_OP
  return op < Op::count_ ? names[static_cast<std::size_t>(op)] : "no op";
}

}  // namespace headcount
