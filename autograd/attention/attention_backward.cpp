#include "autograd/attention/attention_kernel.h"

namespace headcount {

namespace kernel {

namespace {

// Backward of a strip. With P the weights, M the multipliers of dropout and D = rowsum(dy o y):
//   dV = (P o M)^T dy,  dS = P o ((dy V^T) o M - D),  dQ = f dS K,  dK = f dS^T Q,
// f the factors of the rows. Of scores A with a cap, dS is times 1 - (A / cap)^2. If f is scale /
// |row of q k^T|, the row's direction gets no gradient: with the scaled scores A = f q k^T, dS
// becomes dS - A rowsum(dS o A) / scale^2. A sink of weight p in a row has no value: its gradient
// is the sum over the rows of -p D.
struct StripBackward {
  const Strip& strip;
  const Workspace& w;
  const AttentionProblem& p = strip.p;
  // By lane, over and over.
  alignas(kAlignment) Real greatest[kWidth] = {}, inverse[kWidth] = {};
  alignas(kAlignment) Real dot[kWidth] = {}, along[kWidth] = {};

  void run(const Real* y, const Real* dy) {
    strip.gather(p.sources().front().q, p.key_width, w.q);
    strip.gather(dy, p.value_width, w.dy);
    strip.get_columns(dy, p.value_width, w.dy_columns);
    for (Index lane = 0; lane < strip.queries; ++lane) {
      const Index row = strip.row[lane], width = p.value_width;
      greatest[lane] = p.softmax[row].greatest;
      inverse[lane] = p.softmax[row].inverse;
      dot[lane] = (array(y + row * width, width) * array(dy + row * width, width)).sum();
    }
    for (Real* const numbers : {greatest, inverse, dot}) strip.repeat(numbers);
    add_sink_gradients();
    if (p.row_scale == RowScale::inverse_norm) find_along();
    std::fill_n(w.dq_columns, p.key_width * strip.lanes, Real{0});
    strip.for_tiles(w, [&](const Tile& tile) {
      find_gradients(tile);
      add_gradient(tile, tile.source.values, w.scores, w.dy, padded(p.value_width));
      add_gate_gradients(tile);
      find_product_gradients(tile);
      Index column = 0;
      for (const KeySlice& slice : tile.source.keys()) {
        add_gradient(tile, slice, w.d_scores, w.q + column, padded(p.key_width));
        if (p.q_gradient)
          strip.product(w, w.dq_columns + column * strip.lanes,
                        strip.rows(tile, slice, w.key_rows).transpose(), w.d_scores, Write::add);
        column += slice.width;
      }
    });
    if (p.q_gradient) strip.put_rows(w.dq_columns, p.key_width, p.q_gradient);
  }

  // What the sink gets, a row's other scores get less: sums of the gates are relative to the row's
  // own.
  void add_sink_gradients() const {
    for (Index lane = 0; p.sinks != nullptr && lane < strip.queries; ++lane) {
      const Index h = strip.head[lane];
      const Real gradient = -p.softmax[strip.row[lane]].weight(p.sinks[h]) * dot[lane];
      if (p.sink_gradients != nullptr) p.sink_gradients[strip.b * p.heads + h] += gradient;
      if (p.gradients_of_row != nullptr)
        p.gradients_of_row[p.gate(strip.b, p.row_of_query(strip.token[lane]), h)] += gradient;
    }
  }

  // Leaves P o M in w.scores and dS in w.d_scores; with a cap or norms, A in w.scaled.
  void find_gradients(const Tile& tile) const {
    const Index size = tile.count * strip.lanes;
    const bool normed = p.row_scale == RowScale::inverse_norm, drops = p.dropout.threshold > 0;
    strip.find_scores(tile, w, normed || p.cap > 0 ? w.scaled : nullptr);
    if (normed) strip.hide(tile, 0, w.scaled);
    strip.product(w, w.d_scores, strip.rows(tile, tile.source.values, w.key_rows), w.dy_columns,
                  Write::assign);
    if (drops) {
      strip.find_multipliers(tile, w);
      array(w.d_scores, size) *= array(w.mask, size);
    }
    const Vector base = load(greatest), factor = load(inverse), dots = load(dot);
    for (Index at = 0; at < size; at += kWidth) {
      const Vector weight = simd::pmul(exp_or_zero(simd::psub(load(w.scores + at), base)), factor);
      store(w.scores + at, weight);
      store(w.d_scores + at, simd::pmul(weight, simd::psub(load(w.d_scores + at), dots)));
    }
    if (drops) array(w.scores, size) *= array(w.mask, size);
  }

  // along = rowsum(dS o A) / scale^2 over all rows.
  void find_along() {
    strip.for_tiles(w, [&](const Tile& tile) {
      find_gradients(tile);
      for (Index r = 0; r < tile.count * strip.lanes; r += strip.lanes) {
        for (Index lane = 0; lane < strip.lanes; ++lane)
          along[lane] += w.d_scores[r + lane] * w.scaled[r + lane];
      }
    });
    for (Index lane = 0; lane < strip.lanes; ++lane) along[lane] /= p.scale * p.scale;
    strip.repeat(along);
  }

  // Makes gradients of products q k from those of scores.
  void find_product_gradients(const Tile& tile) const {
    const Index size = tile.count * strip.lanes;
    if (p.cap > 0) array(w.d_scores, size) *= 1 - (array(w.scaled, size) / p.cap).square();
    const Vector factor = load(strip.factor), part = load(along);
    const bool normed = p.row_scale == RowScale::inverse_norm;
    for (Index at = 0; at < size; at += kWidth) {
      Vector x = load(w.d_scores + at);
      if (normed) x = simd::psub(x, simd::pmul(load(w.scaled + at), part));
      store(w.d_scores + at, simd::pmul(x, factor));
    }
  }

  void add_gate_gradients(const Tile& tile) const {
    if (p.gradients_of_row == nullptr) return;
    for (Index r = 0; r < tile.count; ++r) {
      Real* const to = p.gradients_of_row + p.gate(strip.b, tile.begin + r, 0);
      for (Index lane = 0; lane < strip.queries; ++lane)
        to[strip.head[lane]] += w.d_scores[r * strip.lanes + lane];
    }
  }

  // Adds x y to the gradient of a slice, with x [n, lanes] and y [lanes, stride].
  void add_gradient(const Tile& tile, const KeySlice& slice, const Real* x, const Real* y,
                    Index stride) const {
    if (slice.gradient == nullptr) return;
    const Index n = tile.count, width = slice.width;
    Real* const to = slice.gradient + slice.offset(strip.b, tile.begin, strip.head_of(slice));
    const ConstMatrix a(x, n, strip.queries, strip.lanes), b(y, strip.queries, stride);
    if (width % kWidth == 0)
      return strip.multiply({to, n, width, slice.slot_stride}, a, b, Write::add);
    strip.multiply({w.key_rows, n, padded(width)}, a, b, Write::assign);
    for (Index r = 0; r < n; ++r) {
      for (Index c = 0; c < width; ++c)
        to[r * slice.slot_stride + c] += w.key_rows[r * padded(width) + c];
    }
  }
};

}  // namespace

}  // namespace kernel

// Strips that add to the gradient of one row run in order, in one task.
void attention_backward(Tape& tape, const AttentionProblem& p, const Real* y, const Real* dy) {
  using namespace kernel;
  Index heads = p.kv_heads;
  for (const KeySource& s : p.sources()) {
    if (s.values.gradient != nullptr) heads = std::gcd(heads, s.values.heads);
    for (const KeySlice& slice : s.keys())
      if (slice.gradient != nullptr) heads = std::gcd(heads, slice.heads);
  }
  for_strips(tape, p, p.kv_heads / heads * Strip::count(p),
             [&](const Strip& strip, const Workspace& w) {
               StripBackward{strip, w}.run(y, dy);
             });
}

}  // namespace headcount
