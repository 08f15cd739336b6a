// programs: autograd in_double
#include "autograd/compositions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace headcount {

namespace {

// y = f(x), dx = dy slope(x, y). The tape wants the name of some op; which one plays no part.
template <class Function, class Slope>
Var elementwise(Var x, Function f, Slope slope) {
  Tape& tape = *x.tape;
  const Index count = x.shape().size();
  const Var y = tape.record(Op::scale, x.shape(), {x});
  for (Index i = 0; i < count; ++i) tape.value(y)[i] = f(tape.value(x)[i]);
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x);
    if (!dx) return;
    for (Index i = 0; i < count; ++i) dx.put(i, dy[i] * slope(t.value(x)[i], t.value(y)[i]));
  });
  return y;
}

Var one_hot(Tape& tape, std::span<const std::int32_t> ids, Index classes) {
  const Index rows = std::ssize(ids);
  std::vector<Real> values(static_cast<std::size_t>(rows * classes));
  for (Index i = 0; i < rows; ++i) {
    values[static_cast<std::size_t>(i * classes + ids[static_cast<std::size_t>(i)])] = 1;
  }
  return tape.constant({rows, classes}, values);
}

}  // namespace

Var logarithm(Var x) {
  return elementwise(
      x, [](Real v) { return std::log(v); }, [](Real v, Real) { return 1 / v; });
}

Var square_root(Var x) {
  return elementwise(
      x, [](Real v) { return std::sqrt(v); }, [](Real, Real y) { return Real{0.5} / y; });
}

Var hyperbolic_tangent(Var x) {
  return elementwise(
      x, [](Real v) { return std::tanh(v); }, [](Real, Real y) { return 1 - y * y; });
}

Var error_function(Var x) {
  return elementwise(
      x, [](Real v) { return std::erf(v); },
      [](Real v, Real) {
        return static_cast<Real>(2 * std::numbers::inv_sqrtpi) * std::exp(-v * v);
      });
}

Var filled(Tape& tape, const Shape& shape, Real value) {
  return tape.constant(shape, std::vector<Real>(static_cast<std::size_t>(shape.size()), value));
}

Var row_sums(Var x) {
  const Index n = x.shape().last();
  return composed_linear(x, filled(*x.tape, {n, n}, 1), std::nullopt);
}

// 1 / (1 + e^-x)
Var composed_sigmoid(Var x) {
  const Var one = filled(*x.tape, x.shape(), 1);
  return one / (one + exponential(scale(x, -1)));
}

// x (1 + erf(x / sqrt(2))) / 2
Var composed_gelu(Var x) {
  const Var phi = error_function(scale(x, static_cast<Real>(1 / std::numbers::sqrt2)));
  return scale(x * (filled(*x.tape, x.shape(), 1) + phi), Real{0.5});
}

Var composed_silu(Var x) { return x * composed_sigmoid(x); }

// log(1 + e^x)
Var composed_softplus(Var x) { return logarithm(filled(*x.tape, x.shape(), 1) + exponential(x)); }

Var composed_softmax(Var x) {
  const Var e = exponential(x);
  return e / row_sums(e);
}

Var composed_layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon) {
  const Real mean = 1 / static_cast<Real>(x.shape().last());
  const Var centred = x - scale(row_sums(x), mean);
  const Var variance = scale(row_sums(centred * centred), mean);
  const Var y = centred / square_root(variance + filled(*x.tape, x.shape(), epsilon)) * weight;
  return bias ? y + *bias : y;
}

Var composed_rms_norm(Var x, std::optional<Var> weight, Real epsilon) {
  const Var mean = scale(row_sums(x * x), 1 / static_cast<Real>(x.shape().last()));
  const Var y = x / square_root(mean + filled(*x.tape, x.shape(), epsilon));
  return weight ? y * *weight : y;
}

Var composed_linear(Var x, Var weight, std::optional<Var> bias) {
  const Shape shape = x.shape();
  const Index out = weight.shape()[0];
  const Var rows = reshape(x, {shape.rows(), shape.last()});
  const Var y = reshape(matrix_product(rows, transpose(weight, 0, 1)), shape.with_last(out));
  return bias ? y + *bias : y;
}

Var composed_head_linear(Var x, Var weight, Index first, Index count, Stored stored) {
  const Shape s = x.shape();  // [B, T, H, in]
  const Index heads = s[2], in = s[3], block = weight.shape()[0] / heads, r = weight.shape()[1];
  const Var rows = reshape(x, {s[0] * s[1], heads * in});
  const Var numbers = reshape(weight, {weight.shape().size()});
  std::optional<Var> y;
  for (Index h = 0; h < heads; ++h) {
    const Var w = reshape(columns(numbers, (h * block + first) * r, count * r), {count, r});
    const Var of_head = matrix_product(columns(rows, h * in, in),
                                       stored == Stored::transposed ? transpose(w, 0, 1) : w);
    y = y ? concat(*y, of_head) : of_head;
  }
  return reshape(*y, {s[0], s[1], heads, y->shape().last() / heads});
}

Var composed_embedding(Var table, std::span<const std::int32_t> ids, const Shape& rows) {
  Shape shape = rows;
  shape.append(table.shape()[1]);
  return reshape(matrix_product(one_hot(*table.tape, ids, table.shape()[0]), table), shape);
}

// mean of log(sum of e^x) - x[target]
Var composed_cross_entropy(Var logits, std::span<const std::int32_t> targets) {
  Tape& tape = *logits.tape;
  const Index rows = logits.shape().rows(), classes = logits.shape().last();
  const Var x = reshape(logits, {rows, classes});
  const Var column = filled(tape, {classes, 1}, 1);
  const Var logsumexp = logarithm(matrix_product(exponential(x), column));
  const Var picked = matrix_product(x * one_hot(tape, targets, classes), column);
  return scale(sum(logsumexp - picked), 1 / static_cast<Real>(rows));
}

Var composed_rotary(Var x, Index dim, double theta, RotaryLayout layout, Index first_position) {
  const Shape s = x.shape();  // [B, T, H, D]
  const Index length = s[1], width = s[3], start = width - dim;
  std::vector<Real> turns(static_cast<std::size_t>(length * width * width));  // x row times matrix
  const auto at = [&](Index t, Index from, Index to) -> Real& {
    return turns[static_cast<std::size_t>((t * width + from) * width + to)];
  };
  for (Index t = 0; t < length; ++t) {
    for (Index i = 0; i < start; ++i) at(t, i, i) = 1;
    for (Index j = 0; j < dim / 2; ++j) {
      const double frequency =
          std::pow(theta, -2 * static_cast<double>(j) / static_cast<double>(dim));
      const double angle = static_cast<double>(first_position + t) * frequency;
      const bool half = layout == RotaryLayout::half;
      const Index a = start + (half ? j : 2 * j), b = half ? a + dim / 2 : a + 1;
      at(t, a, a) = at(t, b, b) = static_cast<Real>(std::cos(angle));
      at(t, a, b) = static_cast<Real>(std::sin(angle));
      at(t, b, a) = -at(t, a, b);
    }
  }
  const Var by_position = transpose(x, 0, 1);  // [T, B, H, D]
  const Var turned = matrix_product(reshape(by_position, {length, s[0] * s[2], width}),
                                    x.tape->constant({length, width, width}, turns));
  return transpose(reshape(turned, {length, s[0], s[2], width}), 0, 1);
}

namespace {

// Returns true if query t reads row `row` of those that it sees.
bool reads(const std::optional<PickedRows>& picked, Index b, Index t, Index row, Index queries) {
  if (!picked) return true;
  const std::int32_t* const list = picked->of(b, t, queries);
  const std::int32_t* const end = list + picked->most;
  return std::find(list, end, static_cast<std::int32_t>(row)) != end;
}

// Keys that pooled rows are come after the others.
bool sees(const AttentionOptions& o, Index b, Index t, Index s, Index queries, Index all_keys) {
  const Index keys = all_keys - (o.pooled ? o.pooled->keys.shape()[1] : 0);
  if (s >= keys) {
    return s - keys < (keys - queries + t + 1) / o.pooled->tokens &&
           reads(o.pooled->picked, b, t, s - keys, queries);
  }
  const Index last = o.causal ? keys - queries + t : keys - 1;
  const bool masked =
      !o.key_mask.empty() && o.key_mask[static_cast<std::size_t>(b * keys + s)] == 0;
  return s <= last && (o.window == 0 || s > last - o.window) && !masked &&
         reads(o.picked, b, t, s, queries);
}

// [B, H, T, S] of `seen` where the query sees the key, `hidden` elsewhere.
Var visibility(const AttentionOptions& options, Tape& tape, const Shape& shape, Real seen,
               Real hidden) {
  std::vector<Real> values;
  for (Index row = 0; row < shape.rows(); ++row) {
    for (Index s = 0; s < shape[3]; ++s) {
      const Index b = row / shape[2] / shape[1], t = row % shape[2];
      values.push_back(sees(options, b, t, s, shape[2], shape[3]) ? seen : hidden);
    }
  }
  return tape.constant(shape, values);
}

// x [B, S, G, D] -> [B, D, H, S], head i a copy of head i / (H / G).
Var repeat_heads(Var x, Index heads) {
  const Index kv_heads = x.shape()[2];
  std::vector<std::int32_t> source;
  for (Index i = 0; i < heads; ++i) {
    source.push_back(static_cast<std::int32_t>(i / (heads / kv_heads)));
  }
  const Var repeat = one_hot(*x.tape, source, kv_heads);  // [H, G]
  return transpose(transpose(composed_linear(transpose(x, 2, 3), repeat, std::nullopt), 1, 2), 2,
                   3);
}

Var scaled_scores(Var raw, const AttentionOptions& options) {
  Tape& tape = *raw.tape;
  const Var seen = visibility(options, tape, raw.shape(), 1, 0);
  if (options.row_scale == RowScale::one) return scale(raw, options.scale);
  // A query that sees nothing has norm and length 0; what it is divided by then plays no part.
  const Var nothing = filled(tape, raw.shape(), std::numeric_limits<Real>::min());
  const Var squares = options.row_scale == RowScale::inverse_norm ? raw * raw * seen : seen;
  return scale(raw, options.scale) / square_root(row_sums(squares) + nothing);
}

// The sum of the log gates [B, S, H, 1] up to each query less that up to each key, [B, H, T, S].
Var gate_scores(Var gates, const AttentionOptions& options, Index queries) {
  Tape& tape = *gates.tape;
  const Index batch = gates.shape()[0], keys = gates.shape()[1], heads = gates.shape()[2];
  const auto sums = [&](Index rows, Real sign) {  // up to the last tokens, [B, H, rows, 1]
    std::vector<Real> up_to;
    for (Index i = 0; i < batch * heads * rows * keys; ++i) {
      const Index b = i / keys / rows / heads, last = keys - rows + i / keys % rows, s = i % keys;
      const bool masked = !options.key_mask.empty() &&
                          options.key_mask[static_cast<std::size_t>(b * keys + s)] == 0;
      up_to.push_back(s <= last && !masked ? sign : Real{0});
    }
    return matrix_product(tape.constant({batch, heads, rows, keys}, up_to), transpose(gates, 1, 2));
  };
  return matrix_product(sums(queries, 1), filled(tape, {batch, heads, 1, keys}, 1)) +
         matrix_product(filled(tape, {batch, heads, queries, 1}, 1),
                        transpose(sums(keys, -1), 2, 3));
}

}  // namespace

Var composed_attention(Var q, Var k, Var v, const AttentionOptions& options) {
  Tape& tape = *q.tape;
  const Index heads = q.shape()[2];
  const Var queries = transpose(q, 1, 2);                // [B, H, T, Dk]
  Var keys = transpose(repeat_heads(k, heads), 1, 2);    // [B, H, Dk, S]
  Var turned = transpose(repeat_heads(v, heads), 1, 2);  // [B, H, Dv, S]
  if (options.pooled) {
    keys = concat(keys, transpose(repeat_heads(options.pooled->keys.x(), heads), 1, 2));
    turned = concat(turned, transpose(repeat_heads(options.pooled->values.x(), heads), 1, 2));
  }
  const Var values = transpose(turned, 2, 3);     // [B, H, S, Dv]
  const Var raw = matrix_product(queries, keys);  // [B, H, T, S]
  Var scores = scaled_scores(raw, options);
  if (options.cap > 0)
    scores = scale(hyperbolic_tangent(scale(scores, 1 / options.cap)), options.cap);
  if (options.log_gates != nullptr)
    scores = scores + gate_scores(options.log_gates->x(), options, q.shape()[1]);
  const Var masked = scores + visibility(options, tape, raw.shape(), 0, Real{-1e30});
  // A sink is one more column of the softmax. Where nothing is seen the weights are uniform; the
  // product makes them 0.
  Var shares = masked;
  if (options.sinks) {
    const Shape column = raw.shape().with_last(1);
    const Var sinks =
        transpose(filled(tape, {column[0], column[2], 1, heads}, 0) + *options.sinks, 1, 3);
    shares = concat(masked, reshape(sinks, column));
  }
  const Var weights = columns(softmax(shares), 0, raw.shape().last()) *
                      visibility(options, tape, raw.shape(), 1, 0);
  return transpose(matrix_product(dropout(weights, options.dropout.value_or(0)), values), 1, 2);
}

namespace {

// The tokens of complete blocks, [B, T, D] -> [B, blocks, m, D].
Var in_blocks(Var x, Index block) {
  const Shape s = x.shape();
  const Index blocks = s[1] / block;
  const Var flat = columns(reshape(x, {s[0], s[1] * s[2]}), 0, blocks * block * s[2]);
  return reshape(flat, {s[0], blocks, block, s[2]});
}

}  // namespace

std::optional<Var> composed_pool_tokens(Var x, Var gates, Var bias) {
  const Shape s = x.shape();
  const Index block = bias.shape()[0], blocks = s[1] / block, width = s[2];
  if (blocks == 0) return std::nullopt;
  const Var scores = transpose(in_blocks(gates, block) + bias, 2, 3);
  const Var values = transpose(in_blocks(x, block), 2, 3);
  const Index rows = s[0] * blocks * width;
  const Var sums =
      matrix_product(reshape(softmax(scores), {rows, 1, block}), reshape(values, {rows, block, 1}));
  return reshape(sums, {s[0], blocks, width});
}

// Tap j of [B, T, C]: x times the matrix that moves token t to t + K - 1 - j, times its weights.
Var composed_causal_convolution(Var x, Var weight, Index first) {
  Tape& tape = *x.tape;
  const Index batch = x.shape()[0], length = x.shape()[1], channels = x.shape()[2];
  const Index taps = weight.shape()[2];
  const Var rows = reshape(weight, {weight.shape()[0], taps});
  std::optional<Var> sum;
  for (Index j = 0; j < taps; ++j) {
    std::vector<Real> moves(static_cast<std::size_t>(batch * length * length));
    for (Index b = 0; b < batch; ++b) {
      for (Index t = taps - 1 - j; t < length; ++t)
        moves[static_cast<std::size_t>((b * length + t) * length + t - (taps - 1 - j))] = 1;
    }
    const Var moved = matrix_product(tape.constant({batch, length, length}, moves), x);
    const Var tap = reshape(columns(transpose(rows, 0, 1), first, channels), {taps * channels});
    const Var term = moved * columns(tap, j * channels, channels);
    sum = sum ? *sum + term : term;
  }
  return *sum;
}

namespace {

// Token t of x [B, T, H, n], as [B, H, n, 1].
Var token(Var x, Index t) {
  const Shape s = x.shape();
  const Var flat = reshape(x, {s[0], s[1] * s[2] * s[3]});
  return reshape(columns(flat, t * s[2] * s[3], s[2] * s[3]), {s[0], s[2], s[3], 1});
}

}  // namespace

Var composed_gated_delta_rule(Var q, Var k, Var v, Var g, Var beta, Var* state) {
  Tape& tape = *q.tape;
  const Index batch = v.shape()[0], length = v.shape()[1], heads = v.shape()[2];
  const Index dk = q.shape()[3], dv = v.shape()[3];
  const auto for_each_head = [&](Var x) {  // [B, T, G, n] -> [B, T, H, n]
    return transpose(repeat_heads(x, heads), 1, 3);
  };
  const auto gate = [&](Var x, Index t) {
    return token(reshape(x, {batch, length, heads, 1}), t);  // [B, H, 1, 1]
  };
  const auto of_rows = [&](Index t) {  // [B, H, Dk, 1]
    if (g.shape().rank() == 4) return token(g, t);
    return matrix_product(filled(tape, {batch, heads, dk, 1}, 1), gate(g, t));
  };
  const Var queries = for_each_head(q), keys = for_each_head(k);
  Var s = filled(tape, {batch, heads, dk, dv}, 0);
  std::optional<Var> y;
  for (Index t = 0; t < length; ++t) {
    const Var key = token(keys, t), query = token(queries, t);
    const Var fade =
        matrix_product(exponential(of_rows(t)), filled(tape, {batch, heads, 1, dv}, 1));
    s = s * fade;
    const Var value = transpose(token(v, t), 2, 3);
    const Var error = value - matrix_product(transpose(key, 2, 3), s);
    s = s + matrix_product(key, matrix_product(gate(beta, t), error));
    const Var out = reshape(matrix_product(transpose(query, 2, 3), s), {batch, heads * dv});
    y = y ? concat(*y, out) : out;
  }
  if (state != nullptr) *state = s;
  return reshape(*y, {batch, length, heads, dv});
}

}  // namespace headcount
