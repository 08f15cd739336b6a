// programs: autograd gradcheck in_double
#include "autograd/op_cases.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <tuple>

#include "autograd/attention/any_attention.h"
#include "autograd/compositions.h"
#include "autograd/evaluation.h"
#include "autograd/no_target.h"

namespace headcount {
namespace {

using Inputs = std::span<const Var>;

// Draws the sizes and options of a case.
struct Case {
  Op op;
  bool large;
  const Draw& any;

  bool one_of(Index n) const { return any(1, n) == n; }
  Index size(Index tiny, Index most) const {
    return large ? any(most * 2 / 3, most) : any(1, tiny);
  }
  // A tensor of rank 1 to 4 with this last extent, of at most 256 elements or of several chunks.
  Shape rows_of(Index width, int least_rank = 1) const {
    if (!large && least_rank == 1 && one_of(6)) return {width};
    Shape shape;
    Index rows = large ? any(10'000, 30'000) / width : any(1, 240 / width);
    for (Index more = any(0, 2); more > 0; --more) {
      const Index extent = any(1, 4);
      shape.append(extent);
      rows = std::max<Index>(1, rows / extent);
    }
    shape.append(rows);
    shape.append(width);
    return shape;
  }
  std::vector<std::int32_t> ids(Index count, Index bound) const {
    std::vector<std::int32_t> result(static_cast<std::size_t>(count));
    for (std::int32_t& id : result) id = static_cast<std::int32_t>(any(0, bound - 1));
    return result;
  }
  OpCase of(const std::vector<Shape>& shapes, CheckedFunction function,
            CheckedFunction composed = nullptr) const {
    std::string name(headcount::name(op));
    for (const Shape& shape : shapes) name += " " + shape.text();
    return {name, normal_inputs(name + std::to_string(any(0, 1000)), shapes), std::move(function),
            std::move(composed)};
  }
  // The op and its composition, which `call(function, inputs)` calls alike.
  template <class Function, class Composed, class Call>
  OpCase of(const std::vector<Shape>& shapes, Function function, Composed composed,
            Call call) const {
    return of(
        shapes, [=](Tape&, Inputs x) { return call(function, x); },
        [=](Tape&, Inputs x) { return call(composed, x); });
  }
  // The op and its composition, both called with all inputs, then with the options.
  template <std::size_t n, class Function, class Composed, class... Options>
  OpCase of_all(const Shape (&shapes)[n], Function function, Composed composed,
                Options... options) const {
    return of(std::vector<Shape>(shapes, shapes + n), function, composed,
              [=](const auto& f, Inputs x) {
                std::array<Var, n> all;
                std::ranges::copy(x, all.begin());
                return std::apply([&](auto... each) { return f(each..., options...); }, all);
              });
  }
};

// Passes an input for an earlier one of equal shape, too, in one case of three.
OpCase perhaps_one_value(const Case& d, OpCase c, std::size_t earlier, std::size_t later) {
  if (c.inputs[earlier].shape != c.inputs[later].shape || !d.one_of(3)) return c;
  c.name += ", input " + std::to_string(later) + " twice";
  c.inputs.erase(c.inputs.begin() + static_cast<std::ptrdiff_t>(earlier));
  for (CheckedFunction* const function : {&c.function, &c.composed}) {
    *function = [f = *function, earlier, later](Tape& tape, Inputs x) {
      std::vector<Var> all(x.begin(), x.end());
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(earlier), x[later - 1]);
      return f(tape, all);
    };
  }
  return c;
}

// Any function of one input, which may lie far from zero.
template <class Function, class Composed, class... Options>
auto unary(Function op, Composed composed, Options... options) {
  return [=](const Case& d) {
    OpCase c = d.of_all({d.rows_of(d.size(8, 60))}, op, composed, options...);
    // Farther from zero, the roundings of the greatest results exceed the smallest results.
    const bool far = d.op != Op::exponential && d.op != Op::softmax && d.one_of(2);
    for (Real& x : c.inputs[0].values) x *= far ? Real{3} : Real{1};
    return c;
  };
}

template <class Function, class Composed>
OpCase any_binary(const Case& d, const Shape& a, const Shape& b, Function op, Composed composed) {
  OpCase c = d.of_all({a, b}, op, composed);
  if (d.op == Op::divide) {
    for (Real& x : c.inputs[1].values) x += std::copysign(Real{0.7}, x);
  }
  return perhaps_one_value(d, std::move(c), 0, 1);
}

OpCase any_gate(const Case& d, Var (*op)(Var, Var), Var (*composed)(Var)) {
  const Shape shape = d.rows_of(d.size(8, 60));
  return any_binary(d, shape, shape, op, [=](Var gate, Var x) { return composed(gate) * x; });
}

OpCase any_arithmetic(const Case& d, Var (*op)(Var, Var)) {
  const Shape a = d.rows_of(d.size(8, 60));
  Shape b;  // of trailing dimensions
  for (int i = static_cast<int>(d.any(0, a.rank())); i < a.rank(); ++i) b.append(a[i]);
  return any_binary(d, a, b, op, [name = d.op](Var x, Var y) {
    return composed_arithmetic(name, x, gathered(y, x.shape()));
  });
}

OpCase any_transpose(const Case& d) {
  const Shape shape = d.rows_of(d.size(8, 60), 2);
  const int rank = shape.rank(), first = static_cast<int>(d.any(0, rank - 1));
  const int second = (first + static_cast<int>(d.any(1, rank - 1))) % rank;
  return d.of_all({shape}, transpose, composed_transpose, first, second);
}

OpCase any_split(const Case& d) {
  const std::array sizes = {d.size(2, 20), d.size(2, 9), d.size(2, 20)};
  return d.of({d.rows_of(sizes[0] + sizes[1] + sizes[2])}, split, composed_split,
              [=, one = d.one_of(2)](const auto& f, Inputs x) {
                const std::vector<Var> pieces = f(x[0], sizes);
                return one ? pieces[1] * pieces[1]
                           : concat(concat(pieces[2], pieces[0]), pieces[1]);
              });
}

OpCase any_concat(const Case& d) {
  const Shape a = d.rows_of(d.size(4, 20));
  Shape b;
  for (int i = 0; i + 1 < a.rank(); ++i) b.append(d.one_of(3) ? 1 : a[i]);
  b.append(d.one_of(3) ? a.last() : d.size(4, 7));
  return any_binary(d, a, b, concat, composed_concat);
}

OpCase any_matrix_product(const Case& d) {
  const Index m = d.size(4, 20), k = d.one_of(4) ? m : d.size(4, 17);
  const Index n = d.one_of(4) ? m : d.size(4, 31);
  Shape a, b;
  for (Index leading = d.any(0, 2); leading > 0; --leading) {
    const Index extent = d.size(3, 5);
    a.append(extent), b.append(extent);
  }
  a.append(m), a.append(k), b.append(k), b.append(n);
  return any_binary(d, a, b, matrix_product, composed_product);
}

OpCase any_linear(const Case& d) {
  const Index in = d.size(6, 48), out = d.one_of(3) ? in : d.size(8, 72);
  const bool biased = d.one_of(2), twice = in == out && d.one_of(2);
  std::vector<Shape> shapes = {d.rows_of(in), {out, in}};
  if (biased) shapes.push_back({out});
  return d.of(shapes, linear, composed_linear, [=](const auto& f, Inputs x) {
    const std::optional<Var> bias = biased ? std::optional(x[2]) : std::nullopt;
    const Var y = f(x[0], x[1], bias);
    return twice ? f(y, x[1], bias) : y;
  });
}

// One product, or one into a latent and one out of it, whose rows of the weight may overlap.
OpCase any_head_linear(const Case& d) {
  const Index heads = d.any(1, 3), r = d.size(4, 40), count = d.size(3, 25), first = d.any(0, 2);
  const bool both = d.one_of(3);
  const Stored stored = both || d.one_of(2) ? Stored::as_is : Stored::transposed;
  const Index in = stored == Stored::transposed ? r : count;
  return d.of({{d.any(1, 2), d.size(4, 37), heads, in}, {heads * (first + count + d.any(0, 2)), r}},
              head_linear, composed_head_linear, [=](const auto& f, Inputs x) {
                const Var y = f(x[0], x[1], first, count, stored);
                return both ? f(y, x[1], 0, count, Stored::transposed) : y;
              });
}

OpCase any_embedding(const Case& d) {
  const Shape rows = {d.size(3, 9), d.size(4, 120)};
  const Index n = d.size(6, 65);
  return d.of_all({{n, d.size(4, 24)}}, embedding, composed_embedding, d.ids(rows.size(), n), rows);
}

OpCase any_norm(const Case& d) {
  const Index width = d.large ? d.any(30, 48) : d.any(5, 8);
  const bool has_last = d.one_of(2);  // the bias of a layer norm, the weight of an RMS norm
  const Real epsilon = d.one_of(2) ? Real{1e-5} : Real{0.3};
  const Shape x = d.rows_of(width), w = {width};
  const std::optional<Var> none;
  if (d.op == Op::rms_norm) {
    return has_last ? d.of_all({x, w}, rms_norm, composed_rms_norm, epsilon)
                    : d.of_all({x}, rms_norm, composed_rms_norm, none, epsilon);
  }
  return has_last ? d.of_all({x, w, w}, layer_norm, composed_layer_norm, epsilon)
                  : d.of_all({x, w}, layer_norm, composed_layer_norm, none, epsilon);
}

OpCase any_rotary(const Case& d) {
  const Index dim = 2 * d.size(3, 8), length = d.size(4, 150), first = d.any(0, 5);
  const RotaryLayout layout = d.one_of(2) ? RotaryLayout::half : RotaryLayout::interleaved;
  const Rotation rotation = d.one_of(3) ? Rotation::inverse : Rotation::forward;
  const Index stride = d.one_of(3) ? d.any(1, 3) : 1;
  return d.of_all({{d.any(1, 2), length, d.size(2, 4), dim + d.any(0, 3)}}, rotary, composed_rotary,
                  RotaryTable(dim, first + length * stride, kComposedTheta), layout, first,
                  rotation, stride);
}

OpCase any_causal_convolution(const Case& d) {
  const Index length = d.size(6, 90), channels = d.size(4, 40), taps = d.any(1, 6);
  const Index first = d.any(0, 2), tokens = d.one_of(2) ? length : d.any(1, length);
  const Skip skip = d.one_of(2) ? Skip::input : Skip::none;
  return d.of_all({{d.any(1, 3), length, channels}, {channels + first + d.any(0, 1), 1, taps}},
                  causal_convolution, composed_causal_convolution, first, skip, tokens);
}

OpCase any_pool_tokens(const Case& d) {
  const Index block = d.any(1, 6), length = block + d.size(6, 90), width = d.size(4, 40);
  const Shape shape = {d.any(1, 2), length, width};
  OpCase c = d.of({shape, shape, {block, width}}, pool_tokens, composed_pool_tokens,
                  [](const auto& f, Inputs x) { return *f(x[0], x[1], x[2]); });
  return perhaps_one_value(d, std::move(c), 0, 1);
}

// Queries pick all rows that they see, so that no step of a difference quotient changes a choice.
// No product of a query and a key is near 0, so that none passes the kink: every third key is
// negative.
OpCase any_pick_rows(const Case& d) {
  const Index batch = d.any(1, 2), length = d.size(6, 150), width = d.size(3, 20);
  const Index heads = d.any(1, 3), rows = d.one_of(2) ? length : d.size(5, 130);
  const TopK sizes = {.most = rows, .first_position = d.any(0, 3)};
  OpCase c = d.of({{batch, length, heads, width}, {batch, rows, 1, width}, {batch, length, heads}},
                  pick_rows, composed_pick_rows, [=](const auto& f, Inputs x) {
                    return f(x[0], x[1], x[2], Real{0.7}, sizes).scores;
                  });
  for (const std::size_t i : {0U, 1U}) {
    for (Real& x : c.inputs[i].values) x = 1 + x / 500;
  }
  if (heads == 1 && rows == length) return perhaps_one_value(d, std::move(c), 0, 1);
  for (std::size_t i = 0; i < c.inputs[1].values.size(); ++i)
    c.inputs[1].values[i] *= i / static_cast<std::size_t>(width) % 3 == 1 ? -1 : 1;
  return c;
}

// Lists of different lengths, and weights of which some are 0, as all of one query in eight are.
OpCase any_index_loss(const Case& d) {
  const Index most = d.any(1, 8);
  const Shape shape = {d.any(1, 2), d.size(8, 90), most};
  const auto rows = std::make_shared<std::vector<std::int32_t>>();
  const auto weights = std::make_shared<Values>();
  for (Index i = 0; i < shape.rows(); ++i) {
    const Index count = d.any(0, most);
    for (Index j = 0; j < most; ++j) {
      rows->push_back(j < count ? static_cast<std::int32_t>(2 * j) : -1);
      weights->push_back(j < count && i % 8 != 5 ? static_cast<Real>(d.any(0, 10)) / 20 : 0);
    }
  }
  return d.of({shape}, index_loss, composed_index_loss, [=](const auto& f, Inputs x) {
    return f(Picks{{rows->data(), most, weights->data()}, x[0]});
  });
}

// States are kept at every 64th token. Decays are those of tokens or the same for all of them; only
// the delta rule must have a rate beta. Keys are short, and decays and rates lie in (0, 1).
OpCase any_state(const Case& d) {
  const bool delta = d.op == Op::gated_delta_rule, many = !d.large && d.one_of(3);
  const Index batch = many ? 1 : d.any(1, 2), groups = many ? 1 : d.any(1, 2);
  const Index heads = many ? 1 : groups * d.any(1, 2), dk = d.size(many ? 2 : 3, 9);
  const Index dv = d.one_of(3) ? dk : d.size(3, 12);
  const Index length = many ? d.any(62, 70) : d.size(5, 140);
  const Shape keys = {batch, length, groups, dk}, rates = {batch, length, heads};
  const bool fixed = d.one_of(4), has_rates = delta || d.one_of(2);
  std::vector<Shape> shapes = {keys, keys, {batch, length, heads, dv}};
  if (!fixed) shapes.push_back(d.one_of(2) ? rates : Shape{batch, length, heads, dk});
  if (has_rates) shapes.push_back(rates);
  const auto rule = [=](Var q, Var k, Var v, Var g, std::optional<Var> beta) {
    return delta ? gated_delta_rule(q, k, v, g, *beta) : gated_linear_attention(q, k, v, g, beta);
  };
  const auto composed = [=](Var q, Var k, Var v, Var g, std::optional<Var> beta) {
    return delta ? composed_gated_delta_rule(q, k, v, g, *beta)
                 : composed_gated_linear_attention(q, k, v, g, beta);
  };
  OpCase c = d.of(shapes, rule, composed, [=](const auto& f, Inputs x) {
    const auto decay = [](const Position& p) { return Real{-0.1} * static_cast<Real>(p[3] + 1); };
    return f(x[0], x[1], x[2], fixed ? made(*x[0].tape, {heads}, decay) : x[3],
             has_rates ? std::optional(x.back()) : std::nullopt);
  });
  const Real shorter = Real{0.6} / std::sqrt(static_cast<Real>(dk));
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const bool is_rate = has_rates && i + 1 == c.inputs.size();
    for (Real& x : c.inputs[i].values)
      x = i < 3 ? x * shorter : is_rate ? 1 / (1 + std::exp(-x)) : Real{-0.3} * std::abs(x);
  }
  return perhaps_one_value(d, perhaps_one_value(d, std::move(c), 1, 2), 0, 1);
}

OpCase any_cross_entropy(const Case& d) {
  const Shape shape = d.rows_of(d.size(8, 65));
  std::vector<std::int32_t> targets = d.ids(shape.rows(), shape.last());
  for (std::size_t i = d.one_of(2) ? 1 : targets.size(); i < targets.size(); i += 2)
    targets[i] = kNoTarget;
  return d.of_all({shape}, cross_entropy, composed_cross_entropy, targets);
}

OpCase any_attention(const Case& d) {
  const AnyAttention drawn(d.any, d.large ? 66 : 1, d.large ? 150 : 8,
                           std::to_string(d.any(0, 1000)));
  OpCase c{"attention, " + drawn.name, drawn.inputs, drawn.with(fused_attention),
           drawn.with(composed_attention)};
  return drawn.options.row_scale == RowScale::inverse_norm ? c : perhaps_one_value(d, c, 0, 1);
}

OpCase any_dropout(const Case& d) {
  return d.of({d.rows_of(d.size(8, 60))},
              [p = static_cast<Real>(d.any(1, 5)) / 10](Tape& tape, Inputs x) {
                tape.set_training(true);
                tape.set_random(11, 3);
                return dropout(x[0], p);
              });
}

OpCase any_reshape(const Case& d) {
  return d.of({d.rows_of(d.size(8, 60))}, [](Tape&, Inputs x) {
    return reshape(x[0], {x[0].shape().last(), x[0].shape().rows(), 1});
  });
}

const std::map<Op, std::function<OpCase(const Case&)>>& table() {
  static const std::map<Op, std::function<OpCase(const Case&)>> ops = {
      {Op::add, [](const Case& d) { return any_arithmetic(d, add); }},
      {Op::subtract, [](const Case& d) { return any_arithmetic(d, subtract); }},
      {Op::multiply, [](const Case& d) { return any_arithmetic(d, multiply); }},
      {Op::divide, [](const Case& d) { return any_arithmetic(d, divide); }},
      {Op::scale, unary(scale, composed_scale, Real{-1.7})},
      {Op::sum, unary(sum, composed_sum)},
      {Op::reshape, any_reshape},
      {Op::transpose, any_transpose},
      {Op::split, any_split},
      {Op::concat, any_concat},
      {Op::matrix_product, any_matrix_product},
      {Op::linear, any_linear},
      {Op::head_linear, any_head_linear},
      {Op::embedding, any_embedding},
      {Op::layer_norm, any_norm},
      {Op::rms_norm, any_norm},
      {Op::gelu, unary(gelu, composed_gelu)},
      {Op::silu, unary(silu, composed_silu)},
      {Op::silu_gate, [](const Case& d) { return any_gate(d, silu_gate, composed_silu); }},
      {Op::sigmoid_gate, [](const Case& d) { return any_gate(d, sigmoid_gate, composed_sigmoid); }},
      {Op::sigmoid, unary(sigmoid, composed_sigmoid)},
      {Op::softplus, unary(softplus, composed_softplus)},
      {Op::exponential, unary(exponential, composed_exponential)},
      {Op::soft_cap, unary(soft_cap, composed_soft_cap, Real{2})},
      {Op::dropout, any_dropout},
      {Op::rotary, any_rotary},
      {Op::softmax, unary(softmax, composed_softmax)},
      {Op::attention, any_attention},
      {Op::causal_convolution, any_causal_convolution},
      {Op::pool_tokens, any_pool_tokens},
      {Op::pick_rows, any_pick_rows},
      {Op::index_loss, any_index_loss},
      {Op::gated_delta_rule, any_state},
      {Op::gated_linear_attention, any_state},
      {Op::cross_entropy, any_cross_entropy}};
  return ops;
}

}  // namespace

OpCase any_case(Op op, CaseSize size, const Draw& any) {
  return table().at(op)({op, size == CaseSize::large, any});
}

std::vector<OpCase> op_cases(Op op, CaseSize size) {
  const Index count = (size == CaseSize::tiny ? 30 : 10) * (op == Op::attention ? 4 : 1);
  std::mt19937 generator(5);
  const Draw any = [&](Index least, Index most) {
    return least + static_cast<Index>(generator() % static_cast<std::uint32_t>(most - least + 1));
  };
  std::vector<OpCase> cases;
  for (Index i = 0; i < count; ++i) cases.push_back(any_case(op, size, any));
  return cases;
}

std::vector<Op> ops_with_cases() {
  std::vector<Op> ops;
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) {
    const Op op{i};
    if (op != Op::leaf && op != Op::parameter && op != Op::read_rows) ops.push_back(op);
  }
  return ops;
}

}  // namespace headcount
