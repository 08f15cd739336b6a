#include "nn/layers.h"

#include <cmath>

namespace headcount {

WeightInit WeightInit::for_layers(Index layers) {
  return {0.02, 0.02 / std::sqrt(2.0 * static_cast<double>(layers))};
}

namespace {

std::optional<ParameterId> add_bias(ParameterStore& parameters, const std::string& prefix,
                                    Index width, bool bias) {
  if (!bias) return std::nullopt;
  return parameters.add(prefix + ".bias", {width}, Initializer::zeros());
}

std::optional<Var> on_tape(Tape& tape, std::optional<ParameterId> id) {
  if (!id) return std::nullopt;
  return tape.parameter(*id);
}

}  // namespace

Linear::Linear(ParameterStore& parameters, const std::string& prefix, Index in, Index out,
               bool bias, double deviation)
    : weight_(parameters.add(prefix + ".weight", {out, in}, Initializer::normal(deviation))),
      bias_(add_bias(parameters, prefix, out, bias)) {}

Var Linear::operator()(Var x) const {
  return linear(x, x.tape->parameter(weight_), on_tape(*x.tape, bias_));
}

std::optional<Var> Linear::bias(Tape& tape) const { return on_tape(tape, bias_); }

Embedding::Embedding(ParameterStore& parameters, const std::string& prefix, Index count,
                     Index width, double deviation)
    : weight_(parameters.add(prefix + ".weight", {count, width}, Initializer::normal(deviation))) {}

Var Embedding::operator()(Tape& tape, std::span<const std::int32_t> ids, const Shape& rows) const {
  return embedding(weight(tape), ids, rows);
}

Norm::Norm(ParameterStore& parameters, const std::string& prefix, Index width, NormKind kind,
           bool bias, double epsilon)
    : kind_(kind),
      weight_(parameters.add(prefix + ".weight", {width}, Initializer::ones())),
      bias_(add_bias(parameters, prefix, width, bias && kind == NormKind::layer)),
      epsilon_(static_cast<Real>(epsilon)) {}

Var Norm::operator()(Var x) const {
  const Var weight = x.tape->parameter(weight_);
  const Index width = weight.shape().size(), part = x.shape().last();
  if (kind_ == NormKind::rms && part < width)
    return multiply(rms_norm(x, std::nullopt, epsilon_), reshape(weight, {width / part, part}));
  if (kind_ == NormKind::rms) return rms_norm(x, weight, epsilon_);
  return layer_norm(x, weight, on_tape(*x.tape, bias_), epsilon_);
}

Mlp::Mlp(ParameterStore& parameters, const std::string& prefix, Index width, Index hidden,
         Activation activation, bool bias, const WeightInit& init)
    : gate_(activation == Activation::swiglu
                ? std::optional<Linear>(std::in_place, parameters, prefix + ".gate_proj", width,
                                        hidden, bias, init.deviation)
                : std::nullopt),
      up_(parameters, prefix + ".up_proj", width, hidden, bias, init.deviation),
      down_(parameters, prefix + ".down_proj", hidden, width, bias, init.residual_deviation) {}

Var Mlp::operator()(Var x) const {
  return down_(gate_ ? silu_gate((*gate_)(x), up_(x)) : gelu(up_(x)));
}

}  // namespace headcount
