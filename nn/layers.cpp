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

Linear::Linear(ParameterStore& parameters, const std::string& prefix, const Size& size,
               double deviation)
    : weight_(parameters.add(prefix + ".weight", {size.out, size.in},
                             Initializer::normal(deviation), size.rows)),
      bias_(add_bias(parameters, prefix, size.out, size.bias)) {}

Var Linear::operator()(Var x) const {
  return linear(x, x.tape->parameter(weight_), on_tape(*x.tape, bias_));
}

std::optional<Var> Linear::bias(Tape& tape) const { return on_tape(tape, bias_); }

Embedding::Embedding(ParameterStore& parameters, const std::string& prefix, Index count,
                     Index width, double deviation)
    : weight_(parameters.add(prefix + ".weight", {count, width}, Initializer::normal(deviation),
                             MatrixRows::entries)) {}

Var Embedding::operator()(Tape& tape, std::span<const std::int32_t> ids, const Shape& rows) const {
  return embedding(weight(tape), ids, rows);
}

Norm::Norm(ParameterStore& parameters, const std::string& prefix, Index width,
           const NormOptions& options)
    : kind_(options.kind),
      weight_(parameters.add(prefix + ".weight", {width}, Initializer::ones())),
      bias_(add_bias(parameters, prefix, width, options.bias && kind_ == NormKind::layer)),
      epsilon_(static_cast<Real>(options.epsilon)) {}

Var Norm::operator()(Var x) const {
  const Var weight = x.tape->parameter(weight_);
  const Index width = weight.shape().size(), part = x.shape().last();
  if (kind_ == NormKind::rms && part < width)
    return multiply(rms_norm(x, std::nullopt, epsilon_), reshape(weight, {width / part, part}));
  if (kind_ == NormKind::rms) return rms_norm(x, weight, epsilon_);
  return layer_norm(x, weight, on_tape(*x.tape, bias_), epsilon_);
}

Var l2_norm(Var x, Real epsilon, Real factor) {
  return scale(rms_norm(x, std::nullopt, epsilon), factor);
}

Mlp::Mlp(ParameterStore& parameters, const std::string& prefix, const Options& o,
         const WeightInit& init)
    : hidden_(o.hidden),
      gate_(o.activation == Activation::swiglu
                ? std::optional(Linear(parameters, prefix + ".gate_proj",
                                       {o.width, o.hidden, o.bias}, init.deviation))
                : std::nullopt),
      up_(parameters, prefix + ".up_proj", {o.width, o.hidden, o.bias}, init.deviation),
      down_(parameters, prefix + ".down_proj", {o.hidden, o.width, o.bias},
            init.residual_deviation) {
  if (o.canon_taps > 0)
    canon_ = canon_layer(parameters, prefix + ".canonD", (gate_ ? 2 : 1) * o.hidden, o.canon_taps);
}

Var Mlp::operator()(Var x, Memory& memory) const {
  Var up = up_(x);
  if (!gate_) return down_(gelu(canon_ ? (*canon_)(up, "canonD_up", memory) : up));
  Var gate = (*gate_)(x);
  if (canon_) {
    gate = (*canon_)(gate, "canonD_gate", memory);
    up = (*canon_)(up, "canonD_up", memory, hidden_);
  }
  return down_(silu_gate(gate, up));
}

}  // namespace headcount
