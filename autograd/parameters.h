#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/arena.h"
#include "autograd/shape.h"

namespace headcount {

/// How a parameter starts: all `mean`, or normal with that mean and `deviation`.
struct Initializer {
  double mean = 0;
  double deviation = 0;

  static Initializer normal(double deviation) { return {0, deviation}; }
  static Initializer ones() { return {1, 0}; }
  static Initializer zeros() { return {0, 0}; }
};

/// Names one parameter of a `ParameterStore`.
struct ParameterId {
  std::size_t index = SIZE_MAX;
  bool valid() const { return index != SIZE_MAX; }
};

/// All parameters of a model in one flat buffer, their gradients in a second, both moments of Adam
/// in a third and fourth: the optimizer, clipping and zeroing are each one loop. Use: `add` every
/// parameter, then `allocate` once, then fill with `initialize` or `value`.
class ParameterStore {
 public:
  /// Weight decay applies to matrices only, as in nanoGPT.
  /// Throws ShapeError if the name is taken, the store is allocated already, or all are too many.
  ParameterId add(std::string name, Shape shape, Initializer initializer);

  /// Takes the buffers; values, gradients and moments are zero.
  void allocate();
  /// Draws every parameter from its initializer. The numbers depend on the seed and the
  /// parameter's name, so that equal names start equal in models that differ elsewhere.
  void initialize(std::uint64_t seed);

  std::size_t size() const { return entries_.size(); }    ///< number of parameters (tensors)
  Index element_count() const { return element_count_; }  ///< sum of their sizes
  const std::string& name(ParameterId id) const { return entry(id).name; }
  const Shape& shape(ParameterId id) const { return entry(id).shape; }
  bool decays(ParameterId id) const { return entry(id).shape.rank() >= 2; }
  /// Throws ShapeError that names what is missing.
  ParameterId find(std::string_view name) const;

  std::span<Real> value(ParameterId id) { return slice(values_, id); }
  std::span<const Real> value(ParameterId id) const { return slice(values_, id); }
  /// Zeros where no gradient has arrived since `clear_gradients`.
  std::span<const Real> gradient(ParameterId id);
  std::span<Real> first_moment(ParameterId id) { return slice(first_moments_, id); }
  std::span<Real> second_moment(ParameterId id) { return slice(second_moments_, id); }

  /// The whole buffers, padding between slices included (always zero).
  std::span<Real> all_values() { return whole(values_); }
  std::span<Real> all_gradients();  ///< after filling slices that got no gradient with zeros

  /// Forgets the gradients. Nothing is written: the next contribution to each is assigned.
  void clear_gradients();

 private:
  friend class Tape;
  struct Entry {
    std::string name;
    Shape shape;
    Initializer initializer;
    Index offset = 0;
    bool has_gradient = false;  // whether the gradient slice holds anything yet
  };
  const Entry& entry(ParameterId id) const { return entries_[id.index]; }
  std::span<Real> slice(const AlignedMemory& buffer, ParameterId id) const;
  std::span<Real> whole(const AlignedMemory& buffer) const;

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // name -> place in entries_
  Index element_count_ = 0;
  Index padded_count_ = 0;
  AlignedMemory values_, gradients_, first_moments_, second_moments_;
};

}  // namespace headcount
