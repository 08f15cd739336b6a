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
  const auto shape_of = [&](std::optional<Var> p) {
    return p ? std::optional(tape.shape(*p)) : std::nullopt;
  };
  const auto fits = [&](std::optional<Var> p) { return !p || tape.shape(*p) == Shape{width}; };
  require(shape.rank() > 0 && fits(weight) && fits(bias), op, "weight and bias must be [", width,
          "] for an input ", shape, ", are ", shape_of(weight), " and ", shape_of(bias));
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
      const Real* const in = xv + row * width;
      Real mean = 0;
      if constexpr (kCentred) {
        LaneSum sum;
        for_lanes(width, [&]<int kCount>(Index i) { sum.add(lanes<kCount>(in + i)); });
        mean = means[row] = sum.total() * inverse_width;
      }
      LaneSum squares;
      for_lanes(width,
                [&]<int kCount>(Index i) { squares.add((lanes<kCount>(in + i) - mean).square()); });
      rstds[row] = Real{1} / std::sqrt(squares.total() * inverse_width + epsilon);
      for_lanes(width, [&]<int kCount>(Index i) {
        Lanes<kCount> out = (lanes<kCount>(in + i) - mean) * rstds[row];
        if (wv != nullptr) out *= lanes<kCount>(wv + i);
        if (bv != nullptr) out += lanes<kCount>(bv + i);
        lanes<kCount>(yv + row * width + i) = out;
      });
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
      Real* const dw_part = partials + begin / chunk * 3 * width;
      Real *const db_part = dw_part + width, *const h = db_part + width;
      std::fill_n(dw_part, 2 * width, Real{0});
      for (Index row = begin; row < end; ++row) {
        const Real *const in = xv + row * width, *const g_out = dy + row * width;
        const Real mean = kCentred ? means[row] : Real{0}, rstd = rstds[row];
        LaneSum sum_g, sum_gh;
        for_lanes(width, [&]<int kCount>(Index i) {
          const Lanes<kCount> d = lanes<kCount>(g_out + i);
          const Lanes<kCount> h_i = (lanes<kCount>(in + i) - mean) * rstd;
          lanes<kCount>(h + i) = h_i;
          lanes<kCount>(dw_part + i) += d * h_i;
          lanes<kCount>(db_part + i) += d;
          const Lanes<kCount> g = wv == nullptr ? d : d * lanes<kCount>(wv + i);
          sum_g.add(g);
          sum_gh.add(g * h_i);
        });
        if (!dx) continue;
        const Real mean_g = kCentred ? sum_g.total() * inverse_width : Real{0};
        const Real mean_gh = sum_gh.total() * inverse_width;
        const auto apply = [&](const auto& g) {
          put(dx, row * width,
              (g - mean_g - array(static_cast<const Real*>(h), width) * mean_gh) * rstd);
        };
        if (wv != nullptr) {
          apply(array(g_out, width) * array(wv, width));
        } else {
          apply(array(g_out, width));
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
