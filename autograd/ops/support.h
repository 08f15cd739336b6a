#pragma once

#include <Eigen/Core>
#include <string>

#include "autograd/error.h"
#include "autograd/tape.h"

/// What the ops share. Not part of the public interface.
namespace headcount {

using ArrayMap = Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, 1>>;
using ConstArrayMap = Eigen::Map<const Eigen::Array<Real, Eigen::Dynamic, 1>>;

inline ArrayMap array(Real* data, Index size) { return {data, size}; }
inline ConstArrayMap array(const Real* data, Index size) { return {data, size}; }

/// Writes or adds `values` to elements [begin, begin + size) of a sink.
template <class Values>
void put(const GradientSink& sink, Index begin, const Eigen::ArrayBase<Values>& values) {
  ArrayMap out = array(sink.data + begin, values.size());
  if (sink.accumulate) {
    out += values.derived();
  } else {
    out = values.derived();
  }
}

/// The tape of an op's inputs. Throws StaleVarError if a Var belongs to none.
inline Tape& tape_of(Var x) {
  if (x.tape == nullptr) throw StaleVarError("a Var that belongs to no tape was used");
  return *x.tape;
}

inline void require(bool condition, Op op, const std::string& message) {
  if (!condition) throw ShapeError(std::string(name(op)) + ": " + message);
}

/// Multiples of 1/65536 that a dropout probability is rounded to.
struct Dropout {
  std::uint32_t threshold = 0;  ///< drop where a 16-bit word is below this
  Real kept = 1;                ///< what a kept element is multiplied by
  RandomKey key;

  Dropout() = default;
  Dropout(Real probability, RandomKey random_key);
  /// out[i] = 0 or `kept` for elements first, first + 1, ...; `first` is a multiple of 8.
  void multipliers(std::uint64_t first, Index count, Real* out) const;
};

}  // namespace headcount
