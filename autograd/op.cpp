#include "autograd/op.h"

namespace headcount {

// No default: the compiler warns of an op without a name.
std::string_view name(Op op) {
  switch (op) {
    case Op::leaf:
      return "leaf";
    case Op::parameter:
      return "parameter";
    case Op::add:
      return "add";
    case Op::subtract:
      return "subtract";
    case Op::multiply:
      return "multiply";
    case Op::divide:
      return "divide";
    case Op::scale:
      return "scale";
    case Op::sum:
      return "sum";
    case Op::reshape:
      return "reshape";
    case Op::transpose:
      return "transpose";
    case Op::split:
      return "split";
    case Op::concat:
      return "concat";
    case Op::matrix_product:
      return "matrix_product";
    case Op::linear:
      return "linear";
    case Op::head_linear:
      return "head_linear";
    case Op::embedding:
      return "embedding";
    case Op::layer_norm:
      return "layer_norm";
    case Op::rms_norm:
      return "rms_norm";
    case Op::gelu:
      return "gelu";
    case Op::silu:
      return "silu";
    case Op::silu_gate:
      return "silu_gate";
    case Op::sigmoid_gate:
      return "sigmoid_gate";
    case Op::sigmoid:
      return "sigmoid";
    case Op::softplus:
      return "softplus";
    case Op::exponential:
      return "exponential";
    case Op::dropout:
      return "dropout";
    case Op::rotary:
      return "rotary";
    case Op::softmax:
      return "softmax";
    case Op::attention:
      return "attention";
    case Op::read_rows:
      return "read_rows";
    case Op::causal_convolution:
      return "causal_convolution";
    case Op::gated_delta_rule:
      return "gated_delta_rule";
    case Op::cross_entropy:
      return "cross_entropy";
    case Op::count_:
      break;
  }
  return "no op";
}

}  // namespace headcount
