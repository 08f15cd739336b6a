#include <algorithm>
#include <numeric>

#include "autograd/ops/attention_strips.h"

namespace headcount {

namespace kernel {

namespace {

// Backward of a strip. With P the weights, M the multipliers of dropout and D = rowsum(dy o y):
//   dV = (P o M)^T dy,  dS = P o ((dy V^T) o M - D),  dQ = f dS K,  dK = f dS^T Q,
// f the factors of the rows. Of scores A with a cap, dS is times 1 - tanh^2(A / cap). If f is scale
// / |row of q k^T|, the row's direction gets no gradient: with the scaled scores A = f q k^T, dS
// becomes dS - A rowsum(dS o A) / scale^2. A sink of weight p in a row has no value: its gradient
// is the sum over the rows of -p D.
class StripBackward {
 public:
  StripBackward(const Strip& queries, const Workspace& workspace, const Real* y, const Real* dy)
      : strip(queries), p(queries.p), w(workspace) {
    strip.gather(dy, p.value_width, w.dy);
    transpose(w.dy, kWidth, padded(p.value_width), w.dy_columns);
    for (Index lane = 0; lane < strip.lanes; ++lane) {
      const Index row = strip.row[lane];
      greatest[lane] = p.softmax[row].greatest;
      inverse[lane] = p.softmax[row].inverse;
      dot[lane] = (array(y + row * p.value_width, p.value_width) *
                   array(dy + row * p.value_width, p.value_width))
                      .sum();
    }
  }

  void run(const AttentionGradients& d) {
    if (p.sinks != nullptr) add_sink_gradients(d);
    if (p.row_scale == RowScale::inverse_norm) find_along();
    std::fill_n(w.dq_columns, padded(p.key_width) * kWidth, Real{0});
    strip.for_tiles([&](const RowRange& tile) {
      find_gradients(tile);
      add_gradient(tile, tile.source.values, w.scores, w.dy, padded(p.value_width));
      if (d.gate_scores != nullptr) add_gate_gradients(tile, d.gate_scores);
      find_product_gradients(tile);
      Index column = 0;
      for (const KeySlice& slice : tile.source.keys()) {
        add_gradient(tile, slice, w.d_scores, w.q + column, padded(p.key_width));
        if (d.q)
          multiply({w.dq_columns + column * kWidth, slice.width, kWidth},
                   rows_of(strip, tile, slice, w.key_rows).transpose(),
                   {w.d_scores, tile.count(), kWidth}, Write::add);
        column += slice.width;
      }
    });
    if (!d.q) return;
    transpose(w.dq_columns, padded(p.key_width), kWidth, w.rows);
    for (Index lane = 0; lane < strip.lanes; ++lane)
      put(d.q, strip.row[lane] * p.key_width,
          array(w.rows + lane * padded(p.key_width), p.key_width));
  }

 private:
  // What the sink gets, a row's other scores get less: sums of the gates are relative to the row's
  // own.
  void add_sink_gradients(const AttentionGradients& d) const {
    for (Index lane = 0; lane < strip.lanes; ++lane) {
      const Index h = strip.head[lane];
      const Real gradient = -p.softmax[strip.row[lane]].weight(p.sinks[h]) * dot[lane];
      if (d.sinks != nullptr) d.sinks[strip.b * p.heads + h] += gradient;
      if (d.gate_scores != nullptr)
        gates_of(d.gate_scores, p.own_row(strip.token[lane]))[h] += gradient;
    }
  }
  Real* gates_of(Real* gates, Index row) const {
    return gates + (strip.b * p.sources().front().count + row) * p.heads;
  }

  // Leaves P o M in w.scores and dS in w.d_scores; with a cap or norms, A in w.scaled.
  void find_gradients(const RowRange& tile) const {
    const Index n = tile.count();
    const bool keeps_scaled = p.cap > 0 || p.row_scale == RowScale::inverse_norm;
    find_scores(strip, tile, w, keeps_scaled ? w.scaled : nullptr);
    multiply({w.d_scores, n, kWidth}, rows_of(strip, tile, tile.source.values, w.key_rows),
             {w.dy_columns, p.value_width, kWidth}, Write::assign);
    const bool drops = p.dropout.threshold > 0;
    if (drops) {
      find_multipliers(strip, tile, w.mask, w.key_rows);
      array(w.d_scores, n * kWidth) *= array(w.mask, n * kWidth);
    }
    const Vector base = load(greatest), factor = load(inverse), dots = load(dot);
    for (Index at = 0; at < n * kWidth; at += kWidth) {
      const Vector weight = simd::pmul(exp_or_zero(simd::psub(load(w.scores + at), base)), factor);
      store(w.scores + at, weight);
      store(w.d_scores + at, simd::pmul(weight, simd::psub(load(w.d_scores + at), dots)));
    }
    if (drops) array(w.scores, n * kWidth) *= array(w.mask, n * kWidth);
  }

  // along = rowsum(dS o A) / scale^2 over all rows.
  void find_along() {
    Vector sum = broadcast(0);
    strip.for_tiles([&](const RowRange& tile) {
      find_gradients(tile);
      for (Index at = 0; at < tile.count() * kWidth; at += kWidth)
        sum = simd::pmadd(load(w.d_scores + at), load(w.scaled + at), sum);
    });
    store(along, simd::pdiv(sum, broadcast(p.scale * p.scale)));
  }

  // Makes gradients of products q k from those of scores.
  void find_product_gradients(const RowRange& tile) const {
    const Index n = tile.count();
    ArrayMap d = array(w.d_scores, n * kWidth);
    if (p.cap > 0) d *= 1 - (array(w.scaled, n * kWidth) / p.cap).tanh().square();
    const Vector factor = load(strip.factor), part = load(along);
    const bool normed = p.row_scale == RowScale::inverse_norm;
    for (Index at = 0; at < n * kWidth; at += kWidth) {
      Vector x = load(w.d_scores + at);
      if (normed) x = simd::psub(x, simd::pmul(load(w.scaled + at), part));
      store(w.d_scores + at, simd::pmul(x, factor));
    }
  }

  void add_gate_gradients(const RowRange& tile, Real* gates) const {
    for (Index r = 0; r < tile.count(); ++r) {
      Real* const to = gates_of(gates, tile.begin + r);
      const Real* const from = w.d_scores + r * kWidth;
      if (p.group() == 1) {
        to[strip.head[0]] += simd::predux(load(from));
      } else {
        for (Index lane = 0; lane < strip.lanes; ++lane) to[strip.head[lane]] += from[lane];
      }
    }
  }

  // Adds x^T y to the gradient of a slice, with x [n, lanes] and y [lanes, width].
  void add_gradient(const RowRange& tile, const KeySlice& slice, const Real* x, const Real* y,
                    Index stride) const {
    if (slice.gradient == nullptr) return;
    const Index n = tile.count(), width = slice.width, lanes = strip.lanes;
    Real* const to = slice.gradient + slice.offset(strip.b, tile.begin, strip.head_of(slice));
    const ConstMatrix a(x, n, lanes, kWidth), b(y, lanes, padded(width), stride);
    if (width % kWidth == 0) return multiply({to, n, width, slice.slot_stride}, a, b, Write::add);
    multiply({w.key_rows, n, padded(width)}, a, b, Write::assign);
    for (Index r = 0; r < n; ++r)
      array(to + r * slice.slot_stride, width) += array(w.key_rows + r * padded(width), width);
  }

  const Strip& strip;
  const AttentionProblem& p;
  const Workspace& w;
  alignas(kAlignment) Real greatest[kWidth] = {}, inverse[kWidth] = {};
  alignas(kAlignment) Real dot[kWidth] = {}, along[kWidth] = {};
};

}  // namespace

}  // namespace kernel

// Strips that add to the gradient of one row run in order, in one task.
void attention_backward(Tape& tape, const AttentionProblem& p, const Real* y, const Real* dy,
                        const AttentionGradients& d) {
  using namespace kernel;
  Index heads = p.kv_heads;
  for (const KeySource& s : p.sources()) {
    if (s.values.gradient != nullptr) heads = std::gcd(heads, s.values.heads);
    for (const KeySlice& slice : s.keys())
      if (slice.gradient != nullptr) heads = std::gcd(heads, slice.heads);
  }
  count_macs(pairs(p) * (3 * p.key_width + 2 * p.value_width));
  const Index strips = strip_count(p), in_task = p.kv_heads / heads;
  for_tasks(tape, p, p.batch * heads, in_task * strips * strip_macs(p, p.row_count()),
            [&](Index task, const Workspace& w) {
              for (Index i = 0; i < in_task * strips; ++i) {
                const Index g = task % heads * in_task + i / strips;
                with_strip(p, task / heads, g, i % strips, w,
                           [&](const Strip& strip, const Workspace&) {
                             StripBackward(strip, w, y, dy).run(d);
                           });
              }
            });
}

}  // namespace headcount
