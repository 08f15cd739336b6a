#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <unsupported/Eigen/SpecialFunctions>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

namespace {

constexpr auto kInverseSqrt2 = static_cast<Real>(1 / std::numbers::sqrt2);
constexpr auto kInverseSqrt2Pi = static_cast<Real>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
// Exponent of half the greatest Real.
constexpr Real kGreatestExponent =
    (std::numeric_limits<Real>::max_exponent - 1) * std::numbers::ln2_v<Real>;

// y = forward(x), dx = dy derivative(x), both on whole Eigen arrays.
template <class Forward, class Derivative>
Var unary(Op op, Var x, Forward forward, Derivative derivative) {
  Tape& tape = tape_of(x);
  const Index count = tape.shape(x).size();
  const Var y = tape.record(op, tape.shape(x), {x});
  if (tape.dry(y)) return y;
  const Real* xv = tape.value(x);
  Real* const yv = tape.value(y);
  parallel_chunks(count, kElementChunk, [=](Index begin, Index end) {
    array(yv + begin, end - begin) = forward(array(xv + begin, end - begin));
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (const GradientSink dx = t.gradient_sink(x)) {
      parallel_chunks(count, kElementChunk, [=](Index begin, Index end) {
        const Index size = end - begin;
        put(dx, begin, array(dy + begin, size) * derivative(array(xv + begin, size)));
      });
    }
  });
  return y;
}

// y = open(gate, s) x, s = sigmoid(gate); dgate = dy x slope(gate, s), dx = dy open(gate, s), all
// on SIMD lanes.
template <class Open, class Slope>
Var gated(Op op, Var gate, Var x, Open open, Slope slope) {
  Tape& tape = tape_of(gate);
  require(tape.shape(gate) == tape.shape(x), op, "the gate {} and {} must agree", tape.shape(gate),
          tape.shape(x));
  const Index count = tape.shape(gate).size();
  const Var y = tape.record(op, tape.shape(gate), {gate, x});
  if (tape.dry(y)) return y;
  const Real *gv = tape.value(gate), *xv = tape.value(x);
  Real* const yv = tape.value(y);
  parallel_chunks(count, kElementChunk, [=](Index begin, Index end) {
    for_lanes(end - begin, [=]<int n>(Index j) {
      const Index i = begin + j;
      const Lanes<n> g = lanes<n>(gv + i), s = g.logistic();
      lanes<n>(yv + i) = open(g, s) * lanes<n>(xv + i);
    });
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dgate = t.gradient_sink(gate), dx = t.gradient_sink(x);
    parallel_chunks(count, kElementChunk, [=](Index begin, Index end) {
      for_lanes(end - begin, [=]<int n>(Index j) {
        const Index i = begin + j;
        const Lanes<n> g = lanes<n>(gv + i), s = g.logistic(), d = lanes<n>(dy + i);
        // The order of these lines is that of the sinks: if gate and x are the same value, the
        // second line adds to the first.
        if (dgate) put_lanes(dgate, i, d * lanes<n>(xv + i) * slope(g, s));
        if (dx) put_lanes(dx, i, d * open(g, s));
      });
    });
  });
  return y;
}

}  // namespace

// y = factor x; dx = factor dy.
Var scale(Var x, Real factor) {
  return unary(
      Op::scale, x, [factor](const auto& v) { return factor * v; },
      [factor](const auto&) { return factor; });
}

// y = x Phi(x); dx = dy (Phi(x) + x phi(x)).
Var gelu(Var x) {
  return unary(
      Op::gelu, x,
      [](const auto& v) { return Real{0.5} * v * (Real{1} + (v * kInverseSqrt2).erf()); },
      [](const auto& v) {
        return Real{0.5} * (Real{1} + (v * kInverseSqrt2).erf()) +
               v * (v.square() * Real{-0.5}).exp() * kInverseSqrt2Pi;
      });
}

// y = x s, s = sigmoid(x); dx = dy s (1 + x (1 - s)).
Var silu(Var x) {
  return unary(
      Op::silu, x, [](const auto& v) { return v * v.logistic(); },
      [](const auto& v) { return v.logistic() * (Real{1} + v * (Real{1} - v.logistic())); });
}

// y = s = sigmoid(x); dx = dy s (1 - s).
Var sigmoid(Var x) {
  return unary(
      Op::sigmoid, x, [](const auto& v) { return v.logistic(); },
      [](const auto& v) { return v.logistic() * (Real{1} - v.logistic()); });
}

// y = log(1 + e^x), written so that e^x cannot overflow; dx = dy sigmoid(x).
Var softplus(Var x) {
  return unary(
      Op::softplus, x, [](const auto& v) { return v.max(Real{0}) + (-v.abs()).exp().log1p(); },
      [](const auto& v) { return v.logistic(); });
}

// y = e^x, finite for great x, so that 0 times y is 0; dx = dy y.
Var exponential(Var x) {
  const auto exp = [](const auto& v) {
    return (v > kGreatestExponent).select(kGreatestExponent, v).exp();
  };
  return unary(Op::exponential, x, exp, exp);
}

// y = c tanh(x / c); dx = dy (1 - tanh(x / c)^2).
Var soft_cap(Var x, Real cap) {
  require(cap > 0, Op::soft_cap, "the cap {} must be positive", cap);
  return unary(
      Op::soft_cap, x, [cap](const auto& v) { return cap * (v / cap).tanh(); },
      [cap](const auto& v) { return Real{1} - (v / cap).tanh().square(); });
}

// y = silu(gate) up; dgate = dy up silu'(gate), dup = dy silu(gate).
Var silu_gate(Var gate, Var up) {
  return gated(
      Op::silu_gate, gate, up, [](const auto& g, const auto& s) { return g * s; },
      [](const auto& g, const auto& s) { return s * (Real{1} + g * (Real{1} - s)); });
}

// y = s x, s = sigmoid(gate); dgate = dy x s (1 - s), dx = dy s.
Var sigmoid_gate(Var gate, Var x) {
  return gated(
      Op::sigmoid_gate, gate, x, [](const auto&, const auto& s) { return s; },
      [](const auto&, const auto& s) { return s * (Real{1} - s); });
}

Dropout::Dropout(Real probability, RandomKey random_key)
    : threshold(static_cast<std::uint32_t>(std::lround(probability * Real{65536}))),
      factor(static_cast<Real>(65536.0 / (65536.0 - threshold))),
      key(random_key) {}

void Dropout::multipliers(std::uint64_t first, Index count, Real* out) const {
  // Each counter gives four words, each word two numbers: its lower half and its upper half.
  constexpr Index kPiece = 64;
  std::array<std::array<std::uint32_t, 4>, kPiece> words;
  std::array<std::uint16_t, 8 * kPiece> halves;
  static_assert(sizeof(words) == sizeof(halves) && std::endian::native == std::endian::little);
  for (Index i = 0; i < count; i += 8 * kPiece) {
    const Index elements = std::min(8 * kPiece, count - i);
    const auto counters = static_cast<std::size_t>((elements + 7) / 8);
    random_words(key, (first + static_cast<std::uint64_t>(i)) / 8,
                 std::span(words.data(), counters));
    std::memcpy(halves.data(), words.data(), counters * sizeof(words.front()));
    // Copies, because `out` might alias the members: with them the compiler vectorises the loop.
    const std::uint32_t limit = threshold;
    const Real multiplier = factor;
    for (Index j = 0; j < elements; ++j)
      out[i + j] = halves[static_cast<std::size_t>(j)] < limit ? Real{0} : multiplier;
  }
}

// y = x m with m = 0 or 1 / (1 - p), drawn again in backward; dx = dy m.
Var dropout(Var x, Real probability) {
  Tape& tape = tape_of(x);
  require(probability >= 0 && probability <= 1 - kDropoutStep, Op::dropout,
          "the probability must be 0 to 1 - 2^-16, is {}", probability);
  if (!tape.training() || probability == 0) return x;
  const Index count = tape.shape(x).size();
  const Dropout mask(probability, tape.next_random_key());
  const Var y = tape.record(Op::dropout, tape.shape(x), {x});
  if (tape.dry(y)) return y;
  const auto drop = [=](const Real* from, const GradientSink& to) {
    parallel_chunks(count, kElementChunk, [=](Index begin, Index end) {
      constexpr Index kPiece = 512;
      static_assert(kPiece % 8 == 0 && kElementChunk % 8 == 0, "multipliers start there");
      alignas(kAlignment) Real factors[kPiece];
      for (Index i = begin; i < end; i += kPiece) {
        const Index n = std::min(kPiece, end - i);
        mask.multipliers(static_cast<std::uint64_t>(i), n, factors);
        put(to, i, array(from + i, n) * array(factors, n));
      }
    });
  };
  drop(tape.value(x), {tape.value(y)});
  tape.finish(y, [=](Tape& t, const Real* dy) {
    if (const GradientSink dx = t.gradient_sink(x)) drop(dy, dx);
  });
  return y;
}

}  // namespace headcount
