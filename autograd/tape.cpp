#include "autograd/tape.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/parallel.h"

namespace headcount {

std::optional<std::string> non_finite(std::span<const Real> numbers) {
  int wrong = 0;  // a loop without an early end is vectorised
  for (const Real x : numbers) wrong |= std::isfinite(x) ? 0 : 1;
  if (wrong == 0) return std::nullopt;
  const auto found = std::ranges::find_if_not(numbers, [](Real x) { return std::isfinite(x); });
  return message_of("is {} at element {}", *found, found - numbers.begin());
}

DryCounts::OfOp DryCounts::sum() const {
  OfOp all;
  for (const OfOp& op : ops) {
    all.of_cache += op.of_cache;
    all.of_tokens += op.of_tokens;
  }
  return all;
}

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
  if (profile_ != nullptr) {
    Index inputs_size = 0;  // each value counts once
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (std::ranges::find(inputs.first(i), inputs[i].index, &Var::index) == inputs.first(i).end())
        inputs_size += node(inputs[i]).shape.size();
    }
    profile_->begin_forward(op, nodes_.size(), inputs_size, shape.size());
  }
  return push_op(op, shape, room_for(shape), inputs);
}

Var Tape::record_alias(Op op, const Shape& shape, Var input) {
  if (profile_ != nullptr) profile_->begin_forward(op, nodes_.size(), 0, 0);
  return push_op(op, shape, node(input).value, {&input, 1});
}

Var Tape::push_op(Op op, const Shape& shape, Real* value, std::span<const Var> inputs) {
  Node n;
  n.op = op;
  n.shape = shape;
  n.value = value;
  for (const Var input : inputs) n.needs_gradient |= needs_gradient(input);
  if (is_dry()) n.of_cache = inputs.empty() ? op == Op::read_rows : node(inputs.front()).of_cache;
  if (trap_) {
    inputs_.resize(nodes_.size());
    inputs_.emplace_back(inputs.begin(), inputs.end());
  }
  return push(n);
}

bool Tape::dry(Var y, Count macs) {
  if (!is_dry()) return false;
  const Node& n = node(y);
  DryCounts::OfOp& counts = dry_->ops[static_cast<std::size_t>(n.op)];
  (n.of_cache ? counts.of_cache : counts.of_tokens) += macs;
  return true;
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
    if (profile_ != nullptr) profile_->begin_backward();
    nodes_[i].vjp(nodes_[i].closure, *this, nodes_[i].gradient);
    if (profile_ != nullptr) profile_->end_backward(nodes_[i].op, i);
    for (std::size_t j = 0; i < inputs_.size() && j < inputs_[i].size(); ++j)
      trap(i, inputs_[i][j].gradient(), "gradient of input " + std::to_string(j));
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
  inputs_.clear();
  arena_.reset();
  random_.stream = first_stream_;
  ++generation_;
}

void Tape::reset_to(std::span<Var* const> kept) {
  carried_.clear();
  std::vector<Shape> shapes;
  for (const Var* x : kept) {
    shapes.push_back(x->shape());
    carried_.insert(carried_.end(), x->value().begin(), x->value().end());
  }
  reset();
  std::span<const Real> left = carried_;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto size = static_cast<std::size_t>(shapes[i].size());
    *kept[i] = constant(shapes[i], left.first(size));
    left = left.subspan(size);
  }
}

RandomKey Tape::next_random_key() {
  ++random_.stream;
  return random_;
}

void Tape::trap(std::size_t index, std::span<const Real> numbers, const std::string& what) const {
  const auto found = non_finite(numbers);
  if (!found) return;
  std::string inputs;
  for (const Var input : inputs_[index])
    inputs += (inputs.empty() ? "" : ", ") + describe(input.index);
  throw NonFiniteError("op {} ({}) -> {}, node {}: the {} {}", name(nodes_[index].op), inputs,
                       nodes_[index].shape.text(), index, what, *found);
}

std::string Tape::describe(std::size_t index) const {
  const Node& n = nodes_[index];
  return (n.parameter.valid() ? parameters_->name(n.parameter) + " " : "") + n.shape.text();
}

}  // namespace headcount
