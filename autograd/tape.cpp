#include "autograd/tape.h"

#include <algorithm>

#include "autograd/base/error.h"
#include "autograd/parallel.h"

namespace headcount {

Shape Var::shape() const {
  if (tape == nullptr) throw StaleVarError("a Var that belongs to no tape was used");
  return tape->node(*this).shape;
}

std::span<const Real> Var::value() const {
  const Shape& s = shape();
  if (tape->is_dry()) throw Error("a dry tape has shapes and no values");
  return {tape->value(*this), static_cast<std::size_t>(s.size())};
}

Real Var::item() const {
  if (shape().size() != 1)
    throw ShapeError("item() wants one element, the shape is {}", shape().text());
  return value()[0];
}

std::span<const Real> Var::gradient() const {
  const Shape& s = shape();
  const Tape::Node& n = tape->node(*this);
  if (n.parameter.valid() && n.needs_gradient)
    return tape->parameters_->gradient(*tape->gradients_to_, n.parameter);
  if (n.gradient == nullptr) return {};
  return {n.gradient, static_cast<std::size_t>(s.size())};
}

const Tape::Node& Tape::node(Var x) const {
  if (x.tape != this) throw StaleVarError("a Var was used with a tape that it does not belong to");
  if (x.generation != generation_) {
    throw StaleVarError("a Var was used after its tape was reset (step {}, now {})", x.generation,
                        generation_);
  }
  return nodes_[x.index];
}

Var Tape::push(const Node& node) {
  nodes_.push_back(node);
  return {this, static_cast<std::uint32_t>(nodes_.size() - 1), generation_};
}

Var Tape::constant(const Shape& shape, std::span<const Real> values) {
  if (static_cast<std::size_t>(shape.size()) != values.size()) {
    throw ShapeError("shape {} does not hold {} values", shape.text(), values.size());
  }
  Node n;
  n.shape = shape;
  n.value = room_for(shape);
  if (!is_dry()) std::ranges::copy(values, n.value);
  return push(n);
}

Var Tape::detached(Var x) {
  Node n;
  n.shape = shape(x);
  n.value = node(x).value;
  return push(n);
}

Var Tape::parameter(ParameterId id) {
  Node n;
  n.op = Op::parameter;
  n.shape = parameters_->shape(id);
  if (!is_dry()) n.value = parameters_->slice(parameters_->values_, id).data();
  n.parameter = id;
  n.needs_gradient = gradients_to_ != nullptr;
  if (n.needs_gradient) n.gradient = parameters_->slice(gradients_to_->memory_, id).data();
  return push(n);
}

Var Tape::record(Op op, const Shape& shape, std::span<const Var> inputs) {
  return push_op(op, shape, room_for(shape), inputs);
}

Var Tape::record_alias(Op op, const Shape& shape, Var input) {
  return push_op(op, shape, node(input).value, {&input, 1});
}

Var Tape::push_op(Op op, const Shape& shape, Real* value, std::span<const Var> inputs) {
  Node n;
  n.op = op;
  n.shape = shape;
  n.value = value;
  for (const Var input : inputs) n.needs_gradient |= needs_gradient(input);
  if (is_dry()) n.of_cache = inputs.empty() ? op == Op::read_rows : node(inputs.front()).of_cache;
  const Var output = push(n);
  for (TapeWatcher* const watcher : watchers_) watcher->begin_forward(output, inputs);
  return output;
}

std::string Tape::parameter_name(Var x) const {
  const ParameterId id = node(x).parameter;
  return id.valid() ? parameters_->name(id) : "";
}

GradientSink Tape::gradient_sink(Var input) {
  Node& n = node(input);
  if (!n.needs_gradient) return {};
  if (n.parameter.valid()) {
    std::uint8_t& arrived = gradients_to_->arrived_[n.parameter.index];
    return {n.gradient, add_if(std::exchange(arrived, true))};
  }
  const Write write = add_if(n.gradient != nullptr);
  if (write == Write::assign) n.gradient = buffers_.take(n.shape.size());
  return {n.gradient, write};
}

void Tape::pass_gradient(Var output, Var input) {
  Node& from = node(output);
  Node& to = node(input);
  if (!to.needs_gradient) return;
  if (!to.parameter.valid() && to.gradient == nullptr) {
    to.gradient = std::exchange(from.gradient, nullptr);
    return;
  }
  const Real* dy = from.gradient;
  const GradientSink dx = gradient_sink(input);
  parallel_for(to.shape.size(), kElementChunk, [=](Index i) { dx.put(i, dy[i]); });
}

void Tape::backward(Var output, std::span<const Real> cotangent) {
  Node& root = node(output);
  if (!root.needs_gradient)
    throw ShapeError("backward needs a value that depends on a leaf or a parameter");
  const auto count = static_cast<std::size_t>(root.shape.size());
  if (!cotangent.empty() && cotangent.size() != count) {
    throw ShapeError("the cotangent has {} values, the output has shape {}", cotangent.size(),
                     root.shape.text());
  }
  const GradientSink seed = gradient_sink(output);
  for (std::size_t i = 0; i < count; ++i) {
    seed.put(static_cast<Index>(i), cotangent.empty() ? Real{1} : cotangent[i]);
  }
  for (std::size_t i = output.index + 1; i-- > 0;) {
    if (nodes_[i].gradient == nullptr || nodes_[i].vjp == nullptr) continue;
    const Var y = {this, static_cast<std::uint32_t>(i), generation_};
    for (TapeWatcher* const watcher : watchers_) watcher->begin_backward(y);
    nodes_[i].vjp(nodes_[i].closure, *this, nodes_[i].gradient);
    for (TapeWatcher* const watcher : watchers_) watcher->end_backward(y);
    // The gradient dies here, unless it was passed on to an input.
    if (nodes_[i].gradient != nullptr) buffers_.give_back(nodes_[i].gradient);
    nodes_[i].gradient = nullptr;
  }
}

void Tape::reset() {
  for (const Node& n : nodes_) {
    if (n.gradient != nullptr && !n.parameter.valid()) buffers_.give_back(n.gradient);
  }
  nodes_.clear();
  arena_.reset();
  random_.stream = first_stream_;
  ++generation_;
}

RandomKey Tape::next_random_key() {
  ++random_.stream;
  return random_;
}

}  // namespace headcount
