// programs: autograd gradcheck in_double
#include "autograd/compositions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "autograd/no_target.h"

namespace headcount {

namespace {

// Calls body(i, position) for every element i.
template <class Body>
void for_each_position(const Shape& s, const Body& body) {
  Position n = {1, 1, 1, 1};
  for (int i = 1; i <= s.rank(); ++i) n[static_cast<std::size_t>(4 - i)] = s[-i];
  for (Index i = 0; i < s.size(); ++i)
    body(i,
         Position{i / (n[1] * n[2] * n[3]), i / (n[2] * n[3]) % n[1], i / n[3] % n[2], i % n[3]});
}

// Index of the element of x at p, -1 where p is nowhere.
Index offset(const Shape& s, const Position& p) {
  if (std::ranges::any_of(p, [](Index i) { return i < 0; })) return -1;
  Index result = 0;
  for (int i = 0; i < s.rank(); ++i) {
    const Index at = p[static_cast<std::size_t>(4 - s.rank() + i)];
    result = result * s[i] + (s[i] == 1 ? 0 : at);
  }
  return result;
}

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

// x [..., n] -> [..., 1], the sums of the rows.
Var row_sums(Var x) {
  return matrix_product(reshape(x, {x.shape().rows(), x.shape().last()}),
                        filled(*x.tape, {x.shape().last(), 1}, 1));
}

Var one_hot(Tape& tape, std::span<const std::int32_t> ids, Index classes) {
  return made(tape, {std::ssize(ids), classes},
              [&](const Position& p) { return Real(ids[static_cast<std::size_t>(p[2])] == p[3]); });
}

}  // namespace

Var repeated_row_sums(Var x) {
  const Shape rows = {x.shape().rows(), x.shape().last()};
  return reshape(gathered(row_sums(x), rows), x.shape());
}

Var gathered(Var x, const Shape& shape, const Source& from) {
  Tape& tape = *x.tape;
  const Shape source = x.shape();
  const Var y = tape.record(Op::scale, shape, {x});
  auto* const at = tape.scratch_of<Index>(shape.size());
  for_each_position(shape, [&](Index i, const Position& p) {
    at[i] = offset(source, from(p));
    tape.value(y)[i] = at[i] < 0 ? 0 : tape.value(x)[at[i]];
  });
  tape.finish(y, [=, count = shape.size(), sources = source.size()](Tape& t, const Real* dy) {
    const GradientSink dx = t.gradient_sink(x);
    if (!dx) return;
    if (dx.write == Write::assign) std::fill_n(dx.data, sources, Real{0});
    for (Index i = 0; i < count; ++i) {
      if (at[i] >= 0) dx.data[at[i]] += dy[i];
    }
  });
  return y;
}

Var made(Tape& tape, const Shape& shape, const std::function<Real(const Position&)>& element) {
  Values values;
  for_each_position(shape, [&](Index, const Position& p) { values.push_back(element(p)); });
  return tape.constant(shape, values);
}

Var filled(Tape& tape, const Shape& shape, Real value) {
  return tape.constant(shape, Values(static_cast<std::size_t>(shape.size()), value));
}

Var logarithm(Var x) {
  return elementwise(
      x, [](Real v) { return std::log(v); }, [](Real v, Real) { return 1 / v; });
}

Var square_root(Var x) {
  return elementwise(
      x, [](Real v) { return std::sqrt(v); }, [](Real, Real y) { return Real{0.5} / y; });
}

Var error_function(Var x) {
  return elementwise(
      x, [](Real v) { return std::erf(v); },
      [](Real v, Real) {
        return static_cast<Real>(2 * std::numbers::inv_sqrtpi) * std::exp(-v * v);
      });
}

Var composed_exponential(Var x) {
  return elementwise(
      x, [](Real v) { return std::exp(v); }, [](Real, Real y) { return y; });
}

Var composed_tanh(Var x) {
  return elementwise(
      x, [](Real v) { return std::tanh(v); }, [](Real, Real y) { return 1 - y * y; });
}

Var composed_arithmetic(Op op, Var a, Var b) {
  Tape& tape = *a.tape;
  const Index count = a.shape().size();
  const Var y = tape.record(op, a.shape(), {a, b});
  // y and its derivatives with respect to a and b.
  const auto at = [=](Tape& t, Index i) -> std::array<Real, 3> {
    const Real u = t.value(a)[i], v = t.value(b)[i];
    if (op == Op::add) return {u + v, 1, 1};
    if (op == Op::subtract) return {u - v, 1, -1};
    if (op == Op::multiply) return {u * v, v, u};
    return {u / v, 1 / v, -u / (v * v)};
  };
  for (Index i = 0; i < count; ++i) tape.value(y)[i] = at(tape, i)[0];
  tape.finish(y, [=](Tape& t, const Real* dy) {
    for (const std::size_t input : {1U, 2U}) {
      const GradientSink dx = t.gradient_sink(input == 1 ? a : b);
      for (Index i = 0; dx && i < count; ++i) dx.put(i, dy[i] * at(t, i)[input]);
    }
  });
  return y;
}

Var composed_sum(Var x) { return reshape(row_sums(reshape(x, {x.shape().size()})), {}); }

Var composed_scale(Var x, Real factor) { return x * filled(*x.tape, x.shape(), factor); }

Var composed_soft_cap(Var x, Real cap) { return scale(composed_tanh(scale(x, 1 / cap)), cap); }

Var composed_transpose(Var x, int first, int second) {
  const int before = 4 - x.shape().rank();
  const auto swap = [=](Position p) {
    std::swap(p[static_cast<std::size_t>(before + first)],
              p[static_cast<std::size_t>(before + second)]);
    return p;
  };
  Shape swapped;
  for (int i = 0; i < x.shape().rank(); ++i)
    swapped.append(x.shape()[i == first ? second : i == second ? first : i]);
  return gathered(x, swapped, swap);
}

std::vector<Var> composed_split(Var x, std::span<const Index> sizes) {
  std::vector<Var> all;
  Index begin = 0;
  for (const Index size : sizes) {
    all.push_back(gathered(x, x.shape().with_last(size), [=](const Position& p) {
      return Position{p[0], p[1], p[2], begin + p[3]};
    }));
    begin += size;
  }
  return all;
}

Var composed_concat(Var a, Var b) {
  const Index width = a.shape().last();
  const Shape shape = a.shape().with_last(width + b.shape().last());
  return gathered(a, shape, [=](const Position& p) { return p[3] < width ? p : kNowhere; }) +
         gathered(b, shape, [=](const Position& p) {
           return Position{p[0], p[1], p[2], p[3] - width};
         });
}

// The sum over l of column l of a times row l of b.
Var composed_product(Var a, Var b) {
  const Shape shape = a.shape().with_last(b.shape().last());
  Var y = filled(*a.tape, shape, 0);
  for (Index l = 0; l < a.shape().last(); ++l) {
    const Var column = gathered(a, shape, [=](const Position& p) {
      return Position{p[0], p[1], p[2], l};
    });
    const Var row = gathered(b, shape, [=](const Position& p) {
      return Position{p[0], p[1], l, p[3]};
    });
    y = y + column * row;
  }
  return y;
}

// 1 / (1 + e^-x)
Var composed_sigmoid(Var x) {
  const Var one = filled(*x.tape, x.shape(), 1);
  return one / (one + composed_exponential(scale(x, -1)));
}

// x (1 + erf(x / sqrt(2))) / 2
Var composed_gelu(Var x) {
  const Var phi = error_function(scale(x, static_cast<Real>(1 / std::numbers::sqrt2)));
  return scale(x * (filled(*x.tape, x.shape(), 1) + phi), Real{0.5});
}

Var composed_silu(Var x) { return x * composed_sigmoid(x); }

// log(1 + e^x)
Var composed_softplus(Var x) {
  return logarithm(filled(*x.tape, x.shape(), 1) + composed_exponential(x));
}

Var composed_softmax(Var x) {
  const Var e = composed_exponential(x);
  return e / repeated_row_sums(e);
}

Var composed_layer_norm(Var x, Var weight, std::optional<Var> bias, Real epsilon) {
  const Real mean = 1 / static_cast<Real>(x.shape().last());
  const Var centred = x - scale(repeated_row_sums(x), mean);
  const Var variance = scale(repeated_row_sums(centred * centred), mean);
  const Var y = centred / square_root(variance + filled(*x.tape, x.shape(), epsilon)) * weight;
  return bias ? y + *bias : y;
}

Var composed_rms_norm(Var x, std::optional<Var> weight, Real epsilon) {
  const Var mean = scale(repeated_row_sums(x * x), 1 / static_cast<Real>(x.shape().last()));
  const Var y = x / square_root(mean + filled(*x.tape, x.shape(), epsilon));
  return weight ? y * *weight : y;
}

Var composed_linear(Var x, Var weight, std::optional<Var> bias) {
  const Shape shape = x.shape();
  const Var rows = reshape(x, {shape.rows(), shape.last()});
  const Var y =
      reshape(matrix_product(rows, transpose(weight, 0, 1)), shape.with_last(weight.shape()[0]));
  return bias ? y + *bias : y;
}

// Product of each head [B, H, T, in] with its rows of the weight.
Var composed_head_linear(Var x, Var weight, Index first, Index count, Stored stored) {
  const Shape s = x.shape();  // [B, T, H, in]
  const Index block = weight.shape()[0] / s[2];
  const Var rows = gathered(weight, {s[0], s[2], count, weight.shape()[1]}, [=](const Position& p) {
    return Position{0, 0, p[1] * block + first + p[2], p[3]};
  });
  const Var w = stored == Stored::transposed ? transpose(rows, 2, 3) : rows;
  return transpose(matrix_product(transpose(x, 1, 2), w), 1, 2);
}

Var composed_embedding(Var table, std::span<const std::int32_t> ids, const Shape& rows) {
  const Index width = table.shape()[1];
  const Var y = gathered(table, {std::ssize(ids), width}, [&](const Position& p) {
    return Position{0, 0, ids[static_cast<std::size_t>(p[2])], p[3]};
  });
  Shape shape = rows;
  shape.append(width);
  return reshape(y, shape);
}

// Mean of log(sum of e^x) - x[target] over the rows that have a target.
Var composed_cross_entropy(Var logits, std::span<const std::int32_t> targets) {
  Tape& tape = *logits.tape;
  const Index rows = logits.shape().rows(), classes = logits.shape().last();
  const Var x = reshape(logits, {rows, classes});
  const Var losses =
      logarithm(row_sums(composed_exponential(x))) - row_sums(x * one_hot(tape, targets, classes));
  const Var counted = made(tape, {rows, 1}, [&](const Position& p) {
    return Real(targets[static_cast<std::size_t>(p[2])] != kNoTarget);
  });
  const auto count = rows - std::ranges::count(targets, kNoTarget);
  return scale(composed_sum(losses * counted), 1 / static_cast<Real>(count));
}

// x cos + (its partner in a pair) sin, of which the first one's sine is negative.
Var composed_rotary(Var x, const RotaryTable& table, RotaryLayout layout, Index first_position,
                    Rotation rotation, Index stride) {
  const Shape shape = x.shape();  // [B, T, H, D]
  const Index dim = table.dim();
  const double sign = rotation == Rotation::inverse ? -1 : 1;
  const Index start = shape[3] - dim, apart = layout == RotaryLayout::half ? dim / 2 : 1;
  const auto is_first = [=](Index i) { return (i - start) / apart % 2 == 0; };
  const auto turn = [=](const Position& p) {
    const Index i = p[3] - start, pair = layout == RotaryLayout::half ? i % apart : i / 2;
    return sign * static_cast<double>(first_position + p[1] * stride) *
           std::pow(kComposedTheta, -2 * static_cast<double>(pair) / static_cast<double>(dim));
  };
  const Var cosines = made(*x.tape, shape, [=](const Position& p) {
    return p[3] < start ? Real{1} : static_cast<Real>(std::cos(turn(p)));
  });
  const Var sines = made(*x.tape, shape, [=](const Position& p) {
    return static_cast<Real>(is_first(p[3]) ? -std::sin(turn(p)) : std::sin(turn(p)));
  });
  const Var partners = gathered(x, shape, [=](const Position& p) {
    if (p[3] < start) return kNowhere;
    return Position{p[0], p[1], p[2], p[3] + (is_first(p[3]) ? apart : -apart)};
  });
  return x * cosines + partners * sines;
}

// Softmax over the tokens of a block, and the sum of the tokens that it weighs, [B, blocks, D, m].
std::optional<Var> composed_pool_tokens(Var x, Var gates, Var bias) {
  const Shape s = x.shape();
  const Index block = bias.shape()[0], blocks = s[1] / block, width = s[2];
  const Shape shape = {s[0], blocks, width, block};
  const auto token = [=](const Position& p) {
    return Position{0, p[0], p[1] * block + p[3], p[2]};
  };
  const Var biases = gathered(bias, shape, [](const Position& p) {
    return Position{0, 0, p[3], p[2]};
  });
  const Var weights = composed_softmax(gathered(gates, shape, token) + biases);
  return reshape(row_sums(weights * gathered(x, shape, token)), {s[0], blocks, width});
}

Var composed_causal_convolution(Var x, Var weight, Index first, Skip skip, Index tokens) {
  const Index batch = x.shape()[0], length = x.shape()[1], channels = x.shape()[2];
  const Index taps = weight.shape()[2];
  const Shape shape = {batch, tokens, channels};
  const auto earlier = [=](Index by) {
    return [=](const Position& p) { return Position{0, p[1], length - tokens + p[2] - by, p[3]}; };
  };
  Var y = skip == Skip::input ? gathered(x, shape, earlier(0)) : filled(*x.tape, shape, 0);
  for (Index j = 0; j < taps; ++j) {
    const Var tap = gathered(weight, {channels}, [=](const Position& p) {
      return Position{0, first + p[3], 0, j};
    });
    y = y + gathered(x, shape, earlier(taps - 1 - j)) * tap;
  }
  return y;
}

namespace {

enum class Rule { delta, add };

// Token by token, with any of the shapes of g; beta is 1 where there is none.
Var composed_state(Rule rule, Var q, Var k, Var v, Var g, std::optional<Var> beta) {
  Tape& tape = *q.tape;
  const Index batch = v.shape()[0], length = v.shape()[1], heads = v.shape()[2];
  const Index dk = q.shape()[3], dv = v.shape()[3], queries_per_key = heads / q.shape()[2];
  // Token t as columns [B, H, n, 1] of heads [B, T, G, n], and as one number per head.
  const auto column = [=](Var x, Index t, Index n, Index group) {
    return gathered(x, {batch, heads, n, 1}, [=](const Position& p) {
      return Position{p[0], t, p[1] / group, p[2]};
    });
  };
  const auto gate = [=](Var x, Index t) {
    return gathered(x, {batch, heads, dk, dv}, [=, rank = x.shape().rank()](const Position& p) {
      if (rank == 1) return Position{0, 0, 0, p[1]};
      return rank == 4 ? Position{p[0], t, p[1], p[2]} : Position{0, p[0], t, p[1]};
    });
  };
  Var s = filled(tape, {batch, heads, dk, dv}, 0);
  std::optional<Var> y;
  for (Index t = 0; t < length; ++t) {
    const Var key = column(k, t, dk, queries_per_key), query = column(q, t, dk, queries_per_key);
    s = s * composed_exponential(gate(g, t));
    Var value = transpose(column(v, t, dv, 1), 2, 3);  // [B, H, 1, Dv]
    if (rule == Rule::delta) value = value - matrix_product(transpose(key, 2, 3), s);
    const Var update = matrix_product(key, value);
    s = s + (beta ? update * gate(*beta, t) : update);
    const Var out = reshape(matrix_product(transpose(query, 2, 3), s), {batch, heads * dv});
    y = y ? concat(*y, out) : out;
  }
  return reshape(*y, {batch, length, heads, dv});
}

}  // namespace

Var composed_gated_delta_rule(Var q, Var k, Var v, Var g, Var beta) {
  return composed_state(Rule::delta, q, k, v, g, beta);
}

Var composed_gated_linear_attention(Var q, Var k, Var v, Var g, std::optional<Var> beta) {
  return composed_state(Rule::add, q, k, v, g, beta);
}

}  // namespace headcount
