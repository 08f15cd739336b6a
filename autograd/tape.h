#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/arena.h"
#include "autograd/base/count.h"
#include "autograd/op.h"
#include "autograd/parameters.h"
#include "autograd/random.h"
#include "autograd/shape.h"

namespace headcount {

class Tape;
struct DryCounts;

/// A value on a tape: a handle, cheap to copy. Valid until the tape is reset; used after that, it
/// throws StaleVarError.
struct Var {
  Tape* tape = nullptr;
  std::uint32_t index = 0;
  std::uint32_t generation = 0;

  Shape shape() const;  ///< a copy: recording moves nodes
  std::span<const Real> value() const;
  Real item() const;  ///< value of a tensor of one element; throws ShapeError for any other size
  /// Gradient of a leaf or a parameter after `backward`; empty where none arrived. Gradients of
  /// intermediate values do not outlive the vjp of the op that made them.
  std::span<const Real> gradient() const;
};

/// Destination of a vjp's contribution to the gradient of one input. The first contribution of a
/// backward pass is assigned and later ones are added: gradients are never filled with zeros first.
struct GradientSink {
  Real* data = nullptr;
  Write write = Write::assign;

  /// Returns false if the input needs no gradient; a vjp then computes nothing for it.
  explicit operator bool() const { return data != nullptr; }
  void put(Index i, Real contribution) const {
    data[i] = write == Write::add ? data[i] + contribution : contribution;
  }
};

/// Follows the ops of a tape, as the checks do that time them and that stop at the first NaN.
class TapeWatcher {
 public:
  virtual ~TapeWatcher() = default;
  virtual void begin_forward(Var output, std::span<const Var> inputs) = 0;
  virtual void end_forward(Var output) = 0;
  virtual void begin_backward(Var) {}
  virtual void end_backward(Var output) = 0;
};

/// Reverse-mode automatic differentiation. Construction order is the tape: nodes live in one
/// vector, the inputs of a node have smaller indices, and `backward` is one loop from the end.
///
/// An op is one function under `autograd/ops/`: it checks shapes, calls `record` for a node with
/// room for the value, computes the value, and sets the vjp (vector-Jacobian product). The contract
/// of a vjp, called as `vjp(tape, dy)` once for all inputs:
///     - `dy` points to the gradient of the op's value, of the same shape;
///     - for each input it calls `tape.gradient_sink(input)` exactly once, skips the input if the
///       sink is empty, and otherwise assigns or adds every element of the contribution;
///     - its captures are trivially destructible: Vars, sizes, pointers into the arena.
class Tape {
 public:
  /// A tape for expressions, or for a model whose parameters are in `parameters`.
  explicit Tape(ParameterStore* parameters = nullptr)
      : parameters_(parameters),
        gradients_to_(parameters == nullptr ? nullptr : &parameters->gradients_) {}
  /// A tape for a model that is only evaluated: its parameters are constants.
  explicit Tape(const ParameterStore& parameters) : parameters_(&parameters) {}
  /// A dry tape: ops check shapes and add their multiply-accumulates to `counts`. Nothing is
  /// computed, and no value has memory: reading one throws Error.
  Tape(const ParameterStore& parameters, DryCounts& counts)
      : parameters_(&parameters), dry_(&counts) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Records a copy of `values`: a constant without a gradient, or a leaf with one. Throws
  /// ShapeError if the number of values is not the size of `shape`.
  Var constant(const Shape& shape, std::span<const Real> values);
  Var leaf(const Shape& shape, std::span<const Real> values) {
    const Var x = constant(shape, values);
    node(x).needs_gradient = true;
    return x;
  }
  /// Records a shape without values on a dry tape. With Op::read_rows, ops on it count as work on
  /// the cache.
  Var dry_leaf(const Shape& shape, Op op = Op::leaf) { return record(op, shape, {}); }
  /// Records the value of x without a copy, as a constant: x gets no gradient through it.
  Var detached(Var x);
  /// Records a parameter of the store without a copy. Its gradient goes to the store, or to where
  /// `collect_gradients_in` says.
  Var parameter(ParameterId id);
  /// From the next step on, gradients of parameters go to `gradients` instead of to the store.
  void collect_gradients_in(Gradients& gradients) { gradients_to_ = &gradients; }

  /// Computes the gradients of `output`, its elements weighted by `cotangent` (empty: by 1), with
  /// respect to every leaf and parameter that it depends on. Throws ShapeError if it depends on
  /// none or if `cotangent` has another size.
  void backward(Var output, std::span<const Real> cotangent = {});

  /// Starts a new step: forgets all nodes, keeps the memory.
  void reset();

  /// Turns dropout on (training) or off (evaluation, the default); `dropout` is the probability of
  /// ops that have none of their own.
  void set_training(bool training, Real dropout = 0) {
    training_ = training;
    dropout_ = dropout;
  }
  bool training() const { return training_; }
  Real dropout() const { return dropout_; }
  /// Random numbers of this step: each dropout op draws from (seed, a stream of its own, step). The
  /// first `used_streams` streams are left to another tape.
  void set_random(std::uint64_t seed, std::uint32_t step, std::uint32_t used_streams = 0) {
    random_ = {seed, used_streams, step};
    first_stream_ = used_streams;
  }
  /// Key of the next random stream of this step; each call returns another one.
  RandomKey next_random_key();

  /// Lets `watchers` follow the ops from now on, and no others.
  void watch(std::vector<TapeWatcher*> watchers) { watchers_ = std::move(watchers); }

  /// Bytes held for values and gradients, and heap allocations made for them so far.
  std::size_t memory_capacity() const { return arena_.capacity() + buffers_.capacity(); }
  std::size_t gradient_capacity() const { return buffers_.capacity(); }
  std::size_t heap_allocations() const {
    return arena_.heap_allocations() + buffers_.heap_allocations();
  }

  // Called by ops.

  /// A new node with an uninitialised value. It needs a gradient if one of `inputs` does.
  Var record(Op op, const Shape& shape, std::span<const Var> inputs);
  Var record(Op op, const Shape& shape, std::initializer_list<Var> inputs) {
    return record(op, shape, std::span(inputs.begin(), inputs.size()));
  }
  /// A new node whose value is `input`'s own memory under another shape.
  Var record_alias(Op op, const Shape& shape, Var input);
  /// Sets the vjp of `output`, whose value is computed: call it last.
  template <class Vjp>
  void finish(Var output, const Vjp& vjp);
  bool is_dry() const { return dry_ != nullptr; }
  /// On a dry tape, adds the multiply-accumulates of the op that recorded y and returns true: the
  /// op returns y without a value.
  bool dry(Var y, Count macs = 0);
  bool needs_gradient(Var x) const { return node(x).needs_gradient; }
  Real* value(Var x) { return node(x).value; }
  /// Precision of `linear`: that of the parameters.
  Precision precision() const {
    return parameters_ == nullptr ? Precision::f32 : parameters_->precision();
  }
  /// Values of x in bfloat16, rounded once a step.
  const Eigen::bfloat16* rounded(Var x);
  Shape shape(Var x) const { return node(x).shape; }
  Op op(Var x) const { return node(x).op; }
  std::string parameter_name(Var x) const;  ///< empty if x is no parameter
  /// Memory for saved statistics, until `reset`.
  Real* scratch(Index count) { return arena_.take_reals(count); }
  /// Memory for `count` objects of type T, which are not constructed, until `reset`.
  template <class T>
  T* scratch_of(Index count) {
    return static_cast<T*>(arena_.take(static_cast<std::size_t>(count) * sizeof(T)));
  }
  /// Memory for the duration of one vjp.
  BufferPool& pool() { return buffers_; }
  /// Destination of a vjp's contribution to the gradient of `input`; empty if it needs none. Each
  /// call counts as one contribution, which the vjp must then write.
  GradientSink gradient_sink(Var input);
  /// Passes the output's gradient itself to an input (additions, reshapes): hands over the buffer
  /// if it can, adds if it must. Must be the last use of `dy` in a vjp.
  void pass_gradient(Var output, Var input);

 private:
  friend struct Var;
  using VjpCall = void (*)(const void* closure, Tape& tape, const Real* dy);
  struct Node {
    Shape shape;
    Real* value = nullptr;
    const Eigen::bfloat16* rounded = nullptr;
    Real* gradient = nullptr;
    const void* closure = nullptr;
    VjpCall vjp = nullptr;
    ParameterId parameter;
    Op op = Op::leaf;
    bool needs_gradient = false;
    bool of_cache = false;  // on a dry tape: made of cached rows alone
  };
  const Node& node(Var x) const;
  Node& node(Var x) { return const_cast<Node&>(static_cast<const Tape*>(this)->node(x)); }
  Var push(const Node& node);
  Var push_op(Op op, const Shape& shape, Real* value, std::span<const Var> inputs);
  Real* room_for(const Shape& shape) {
    return is_dry() ? nullptr : arena_.take_reals(shape.size());
  }

  const ParameterStore* parameters_;
  DryCounts* dry_ = nullptr;
  Gradients* gradients_to_ = nullptr;  // null: parameters are constants
  std::vector<Node> nodes_;
  std::uint32_t generation_ = 0;
  Arena arena_;
  BufferPool buffers_;  // gradients and scratch of vjps
  RandomKey random_;
  std::uint32_t first_stream_ = 0;
  std::vector<TapeWatcher*> watchers_;
  bool training_ = false;
  Real dropout_ = 0;
};

template <class Vjp>
void Tape::finish(Var output, const Vjp& vjp) {
  Node& n = node(output);
  for (TapeWatcher* const watcher : watchers_) watcher->end_forward(output);
  if (!n.needs_gradient) return;
  n.closure = arena_.store(vjp);
  n.vjp = [](const void* closure, Tape& tape, const Real* dy) {
    (*static_cast<const Vjp*>(closure))(tape, dy);
  };
}

}  // namespace headcount
