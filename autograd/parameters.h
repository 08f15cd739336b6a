#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/arena.h"
#include "autograd/products/products.h"
#include "autograd/shape.h"

namespace headcount {

/// Distribution of a parameter's first values.
struct Initializer {
  enum class Kind {
    constant,     ///< `low`
    normal,       ///< with mean 0 and standard deviation `high`
    uniform,      ///< from `low` to `high`
    log_uniform,  ///< logarithm of a number that is uniform from `low` to `high`
    log_steps,    ///< number whose softplus has a uniform logarithm, from log `low` to log `high`
  };
  Kind kind = Kind::constant;
  double low = 0, high = 0;

  static Initializer zeros() { return {Kind::constant, 0, 0}; }
  static Initializer ones() { return {Kind::constant, 1, 0}; }
  static Initializer normal(double deviation) { return {Kind::normal, 0, deviation}; }
  static Initializer uniform(double bound) { return {Kind::uniform, -bound, bound}; }
  static Initializer log_uniform(double high, double low = 0) {
    return {Kind::log_uniform, low, high};
  }
  static Initializer log_uniform_steps(double high, double low) {
    return {Kind::log_steps, low, high};
  }
};

/// Meaning of a matrix's rows: features, as its columns are, or entries of a table, one per token
/// or position.
enum class MatrixRows { features, entries };

/// Names one parameter of a `ParameterStore`.
struct ParameterId {
  std::size_t index = SIZE_MAX;
  bool valid() const { return index != SIZE_MAX; }
};

class ParameterStore;

/// One gradient for each parameter of a store, in one buffer.
class Gradients {
 public:
  Gradients() = default;
  /// Allocates memory for the gradients of an allocated store; no gradient has arrived yet.
  explicit Gradients(const ParameterStore& parameters);
  /// Forgets the gradients without writing: the next contribution to each is assigned.
  void clear() { arrived_.assign(arrived_.size(), false); }

 private:
  friend class ParameterStore;
  friend class Tape;
  AlignedMemory memory_;
  // By parameter: 1 if its slice holds a gradient. Bytes and not bits, because threads may write
  // the entries of different parameters at the same time.
  std::vector<std::uint8_t> arrived_;
};

/// All parameters of a model in one flat buffer and their gradients in a second: the optimizer,
/// clipping and zeroing are each one loop. Use: `add` every parameter, then `allocate` once, then
/// fill with `initialize` or `value`.
class ParameterStore {
 public:
  /// Adds a parameter and returns its id. Throws ShapeError if the name is taken, the store is
  /// allocated already, or the parameters have too many elements.
  ParameterId add(std::string name, Shape shape, Initializer initializer,
                  MatrixRows rows = MatrixRows::features);

  /// Allocates the buffers; values and gradients are zero.
  void allocate();
  /// Draws every parameter from its initializer. The numbers depend on the seed and the parameter's
  /// name: a parameter has the same initial values in all models that have it with the same shape.
  void initialize(std::uint64_t seed);

  /// Chooses the precision of `linear` on tapes with these parameters, at first f32.
  void set_precision(Precision precision) { precision_ = precision; }
  Precision precision() const { return precision_; }

  /// While it lives, tapes read weights that were rounded to bfloat16 once, if that is the store's
  /// precision. Values must not change meanwhile.
  class Rounded {
   public:
    explicit Rounded(ParameterStore& parameters);
    ~Rounded() { parameters_.is_rounded_ = false; }
    Rounded(const Rounded&) = delete;
    Rounded& operator=(const Rounded&) = delete;

   private:
    ParameterStore& parameters_;
  };
  /// Values of a parameter in bfloat16; null unless a Rounded lives.
  const Eigen::bfloat16* rounded(ParameterId id) const;

  std::size_t size() const { return entries_.size(); }    ///< number of parameters (tensors)
  Index element_count() const { return element_count_; }  ///< sum of their sizes
  const std::string& name(ParameterId id) const { return entry(id).name; }
  const Shape& shape(ParameterId id) const { return entry(id).shape; }
  /// Returns true if weight decay applies to the parameter: to matrices only, as in nanoGPT.
  bool decays(ParameterId id) const { return entry(id).shape.rank() == 2; }
  /// Returns true for a matrix whose rows and columns are features: projections, no tables.
  bool maps_features(ParameterId id) const {
    return decays(id) && entry(id).rows == MatrixRows::features;
  }
  /// Id of the parameter `name`. Throws ShapeError that has the name if there is no such parameter.
  ParameterId find(std::string_view name) const;

  std::span<Real> value(ParameterId id) { return slice(values_, id); }
  std::span<const Real> value(ParameterId id) const { return slice(values_, id); }
  /// Gradient of a parameter, the store's own or in `gradients`; empty if none has arrived since
  /// they were cleared.
  std::span<const Real> gradient(ParameterId id) const { return gradient(gradients_, id); }
  std::span<const Real> gradient(const Gradients& gradients, ParameterId id) const;

  /// The whole buffer, with the padding between slices (always zero).
  std::span<Real> all_values() { return whole(values_); }

  /// Writes zeros where no gradient has arrived and returns the whole buffer. Until then, slices
  /// without a gradient may hold numbers of an earlier step.
  std::span<Real> complete_gradients() { return complete_gradients(gradients_); }
  std::span<Real> complete_gradients(Gradients& gradients) const;

  /// Calls `body(id, first, last)` for each parameter with elements [first, last) in [begin, end)
  /// of the whole buffers.
  template <class Body>
  void for_slices(Index begin, Index end, const Body& body) const {
    auto e = std::ranges::upper_bound(entries_, begin, {}, &Entry::offset);
    if (e != entries_.begin()) --e;  // `begin` lies in it
    for (; e != entries_.end() && e->offset < end; ++e) {
      const Index first = std::max(begin, e->offset);
      const Index last = std::min(end, e->offset + e->shape.size());
      if (first < last)
        body(ParameterId{static_cast<std::size_t>(e - entries_.begin())}, first, last);
    }
  }

  Gradients& gradients() { return gradients_; }   ///< the store's own
  void clear_gradients() { gradients_.clear(); }  ///< forgets the store's own gradients

 private:
  friend class Gradients;
  friend class ParameterNumbers;
  friend class Tape;
  struct Entry {
    std::string name;
    Shape shape;
    Initializer initializer;
    MatrixRows rows;
    Index offset = 0;
  };
  const Entry& entry(ParameterId id) const { return entries_[id.index]; }
  std::span<Real> slice(const AlignedMemory& buffer, ParameterId id) const;
  std::span<Real> whole(const AlignedMemory& buffer) const;
  AlignedMemory zeros() const;  // a buffer for all parameters

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // name -> place in entries_
  Index element_count_ = 0;
  Index padded_count_ = 0;
  AlignedMemory values_;
  AlignedMemory rounded_;  // values in bfloat16, if there have been any
  bool is_rounded_ = false;
  Precision precision_ = Precision::f32;
  Gradients gradients_;
};

/// Buffer with one number, initially 0, for each number of an allocated store, such as a moment of
/// an optimizer. The store must outlive it.
class ParameterNumbers {
 public:
  explicit ParameterNumbers(const ParameterStore& parameters)
      : parameters_(&parameters), memory_(parameters.zeros()) {}

  std::span<Real> of(ParameterId id) const { return parameters_->slice(memory_, id); }
  /// The whole buffer, laid out as `ParameterStore::all_values`.
  std::span<Real> all() const { return parameters_->whole(memory_); }

 private:
  const ParameterStore* parameters_;
  AlignedMemory memory_;
};

}  // namespace headcount
