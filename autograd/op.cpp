#include "autograd/op.h"

#include <iterator>

namespace headcount {

namespace {

// Names of the ops in the order of the enumeration.
// clang-format off
constexpr std::string_view kNames[] = {
    "leaf", "parameter", "add", "subtract", "multiply", "divide", "scale", "sum", "reshape",
    "transpose", "split", "concat", "matrix_product", "linear", "head_linear", "embedding",
    "layer_norm", "rms_norm", "gelu", "silu", "silu_gate", "sigmoid_gate", "sigmoid", "softplus",
    "exponential", "dropout", "rotary", "softmax", "attention", "read_rows", "causal_convolution",
    "pool_tokens", "pick_rows", "index_loss", "gated_delta_rule", "cross_entropy",
};
// clang-format on
static_assert(std::size(kNames) == static_cast<std::size_t>(Op::count_), "every op has a name");

}  // namespace

std::string_view name(Op op) {
  const auto index = static_cast<std::size_t>(op);
  return index < std::size(kNames) ? kNames[index] : "no op";
}

}  // namespace headcount
