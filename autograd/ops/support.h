#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "autograd/base/error.h"
#include "autograd/parallel.h"
#include "autograd/products/products.h"
#include "autograd/tape.h"

/// Helpers that the ops share. Not part of the public interface.
namespace headcount {

using ArrayMap = Eigen::Map<Eigen::Array<Real, Eigen::Dynamic, 1>>;
using ConstArrayMap = Eigen::Map<const Eigen::Array<Real, Eigen::Dynamic, 1>>;

inline ArrayMap array(Real* data, Index size) { return {data, size}; }
inline ConstArrayMap array(const Real* data, Index size) { return {data, size}; }

/// Assigns `values` to an Eigen expression, or adds them.
template <class Out, class Values>
void write_to(Out out, Write write, const Values& values) {
  if (write == Write::add) {
    out += values;
  } else {
    out = values;
  }
}

/// Writes `values` to elements [begin, begin + size) of a sink.
template <class Values>
void put(const GradientSink& sink, Index begin, const Eigen::ArrayBase<Values>& values) {
  write_to(array(sink.data + begin, values.size()), sink.write, values.derived());
}

/// Vector of numbers that one SIMD loop body processes. Its length is known to the compiler: for
/// short rows, Eigen's loops over a length known only at run time cost more than the work itself.
template <int kCount>
using Lanes = Eigen::Array<Real, kCount, 1>;
constexpr int kLanes = 16;

/// `kCount` numbers from x on, every kStride-th.
template <int kCount, int kStride = 1>
auto lanes(const Real* x) {
  return Eigen::Map<const Lanes<kCount>, 0, Eigen::InnerStride<kStride>>(x);
}
template <int kCount, int kStride = 1>
auto lanes(Real* x) {
  return Eigen::Map<Lanes<kCount>, 0, Eigen::InnerStride<kStride>>(x);
}

/// Calls `body.operator()<n>(i)` for elements [i, i + n) of [0, count): n is kMany while so many
/// are left, then a quarter of it (heads are often 8 or 24 wide), then 1.
template <int kMany = kLanes, class Body>
void for_lanes(Index count, const Body& body) {
  constexpr int kFew = kMany / 4;
  Index i = 0;
  for (; i + kMany <= count; i += kMany) body.template operator()<kMany>(i);
  for (; i + kFew <= count; i += kFew) body.template operator()<kFew>(i);
  for (; i < count; ++i) body.template operator()<1>(i);
}

/// Writes lanes of `values` to every kStride-th element of a sink from `begin` on.
template <int kStride = 1, class Values>
void put_lanes(const GradientSink& sink, Index begin, const Eigen::ArrayBase<Values>& values) {
  write_to(lanes<Values::SizeAtCompileTime, kStride>(sink.data + begin), sink.write,
           values.derived());
}

/// Sum of numbers that are added lane by lane.
class LaneSum {
 public:
  template <class Numbers>
  void add(const Eigen::ArrayBase<Numbers>& x) {
    if constexpr (Numbers::SizeAtCompileTime == kLanes) {
      many_ += x.derived();
    } else {
      one_ += x.sum();
    }
  }
  Real total() const { return many_.sum() + one_; }

 private:
  Lanes<kLanes> many_ = Lanes<kLanes>::Zero();
  Real one_ = 0;
};

/// The tape of an op's inputs. Throws StaleVarError if a Var belongs to none.
inline Tape& tape_of(Var x) {
  if (x.tape == nullptr) throw StaleVarError("a Var that belongs to no tape was used");
  return *x.tape;
}

/// Throws ShapeError that names the op unless `condition` holds. Only then is the message built.
template <class... Parts>
void require(bool condition, Op op, MessageFormat<std::type_identity_t<Parts>...> message,
             const Parts&... parts) {
  if (!condition) throw ShapeError("{}: {}", name(op), message_of(message, parts...));
}

/// Sink of an input to whose gradient a vjp adds in parts, in any order: it holds zeros if nothing
/// arrived before. Several inputs may be one tensor.
inline GradientSink sink_of_parts(Tape& tape, Var input) {
  const GradientSink sink = tape.gradient_sink(input);
  if (sink && sink.write == Write::assign) {
    parallel_chunks(tape.shape(input).size(), kElementChunk, [=](Index begin, Index end) {
      std::fill(sink.data + begin, sink.data + end, Real{0});
    });
  }
  return {sink.data, Write::add};
}

/// Calls body(task, memory) for each task of [0, count), of `macs` multiply-accumulates each, in
/// parallel. `memory` holds `size` numbers of the thread that runs the task.
template <class Body>
void parallel_with_scratch(BufferPool& pool, Index count, std::int64_t macs, Index size,
                           const Body& body) {
  const Index copies = OnOneThread::active() ? 1 : threads();
  Real* const memory = pool.take(copies * size);
  parallel_for(count, task_chunk(macs),
               [&](Index task) { body(task, memory + (copies == 1 ? 0 : this_thread() * size)); });
  pool.give_back(memory);
}

/// Softmax of one row of scores. With the logsumexp of the row in its place, weights would have the
/// rounding of the scores: at scores of 1e7 they would add up to 1 +- 0.5.
struct RowSoftmax {
  Real greatest = 0;  ///< score
  Real inverse = 0;   ///< 1 / sum of exp(score - greatest); 0: all weights are 0

  Real weight(Real score) const { return std::exp(score - greatest) * inverse; }
  Real log_weight(Real score) const { return score - greatest + std::log(inverse); }
};

/// Dropout mask. The probability is rounded to a multiple of 1/65536.
struct Dropout {
  std::uint32_t threshold = 0;  ///< elements whose random 16-bit word is below it are dropped
  Real factor = 1;              ///< multiplier of the elements that are kept
  RandomKey key;

  Dropout() = default;
  Dropout(Real probability, RandomKey random_key);
  /// out[i] = 0 or `factor` for elements first, first + 1, ...; `first` is a multiple of 8.
  void multipliers(std::uint64_t first, Index count, Real* out) const;
};

}  // namespace headcount
