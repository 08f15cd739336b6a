#include <algorithm>
#include <cmath>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"

namespace headcount {

namespace {

// A loop over rows that also sums over all of them keeps one partial sum per chunk; this many
// chunks at most, added up in order.
constexpr Index kMostPartials = 16;

Index partial_chunk(Index rows, Index width) {
  return std::max(row_chunk(width), (rows + kMostPartials - 1) / kMostPartials);
}

// Both norms: h = (x - mean) rstd, y = h w + b, with mean = 0 and no b in the case of RMSNorm.
//   g = dy w
//   dx = rstd (g - mean(g) - h mean(g h))          (without mean(g) if not centred)
//   dw = sum over rows of dy h, db = sum over rows of dy
template <bool kCentred>
Var normalize(Op op, Var x, std::optional<Var> weight, std::optional<Var> bias, Real epsilon) {
  Tape& tape = tape_of(x);
  const Shape shape = tape.shape(x);
  const Index rows = shape.rows(), width = shape.last();
  const auto text = [&](std::optional<Var> p) { return p ? tape.shape(*p).text() : "none"; };
  require(shape.rank() > 0 && (!weight || tape.shape(*weight) == Shape{width}) &&
              (!bias || tape.shape(*bias) == Shape{width}),
          op,
          "weight and bias must be [" + std::to_string(width) + "] for an input " + shape.text() +
              ", are " + text(weight) + " and " + text(bias));
  const Var w_or_x = weight.value_or(x), b_or_x = bias.value_or(x);
  const Var y = tape.record(op, shape, {x, w_or_x, b_or_x});
  const Real* xv = tape.value(x);
  const Real* wv = weight ? tape.value(*weight) : nullptr;
  const Real* bv = bias ? tape.value(*bias) : nullptr;
  Real* yv = tape.value(y);
  Real* means = tape.scratch(kCentred ? rows : 0);
  Real* rstds = tape.scratch(rows);
  const auto inverse_width = Real{1} / static_cast<Real>(width);
  parallel_chunks(rows, row_chunk(width), [=](Index begin, Index end) {
    for (Index row = begin; row < end; ++row) {
      const auto in = array(xv + row * width, width);
      auto out = array(yv + row * width, width);
      Real mean = 0;
      if constexpr (kCentred) mean = means[row] = in.sum() * inverse_width;
      const Real variance = (in - mean).square().sum() * inverse_width;
      rstds[row] = Real{1} / std::sqrt(variance + epsilon);
      out = (in - mean) * rstds[row];
      if (wv != nullptr) out *= array(wv, width);
      if (bv != nullptr) out += array(bv, width);
    }
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x);
    const GradientSink dw = weight ? t.gradient_sink(*weight) : GradientSink{};
    const GradientSink db = bias ? t.gradient_sink(*bias) : GradientSink{};
    const Index chunk = partial_chunk(rows, width);
    const Index chunks = (rows + chunk - 1) / chunk;
    Real* const partials = t.pool().take(3 * chunks * width);  // dw, db and a row h of each chunk
    parallel_chunks(rows, chunk, [=](Index begin, Index end) {
      auto dw_part = array(partials + begin / chunk * 3 * width, width);
      auto db_part = array(partials + (begin / chunk * 3 + 1) * width, width);
      auto h = array(partials + (begin / chunk * 3 + 2) * width, width);
      dw_part.setZero();
      db_part.setZero();
      for (Index row = begin; row < end; ++row) {
        const auto in = array(xv + row * width, width);
        const auto g_out = array(dy + row * width, width);
        h = (kCentred ? in - means[row] : in - Real{0}) * rstds[row];
        if (dw) dw_part += g_out * h;
        if (db) db_part += g_out;
        if (!dx) continue;
        const auto apply = [&](const auto& g) {
          const Real mean_g = kCentred ? g.sum() * inverse_width : Real{0};
          const Real mean_gh = (g * h).sum() * inverse_width;
          put(dx, row * width, (g - mean_g - h * mean_gh) * rstds[row]);
        };
        if (wv != nullptr) {
          apply(g_out * array(wv, width));
        } else {
          apply(g_out);
        }
      }
    });
    for (Index c = 0; c < chunks; ++c) {
      const GradientSink next_dw{dw.data, dw.accumulate || c > 0},
          next_db{db.data, db.accumulate || c > 0};
      if (dw) put(next_dw, 0, array(partials + c * 3 * width, width));
      if (db) put(next_db, 0, array(partials + (c * 3 + 1) * width, width));
    }
    t.pool().give_back(partials);
  });
  return y;
}

}  // namespace

Var layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon) {
  return normalize<true>(Op::layer_norm, x, weight, bias, epsilon);
}

Var rms_norm(Var x, std::optional<Var> weight, Real epsilon) {
  return normalize<false>(Op::rms_norm, x, weight, std::nullopt, epsilon);
}

}  // namespace headcount
