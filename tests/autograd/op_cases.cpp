// programs: autograd gradcheck in_double
#include "autograd/op_cases.h"

#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "autograd/evaluation.h"
#include "autograd/no_target.h"
#include "autograd/random.h"

namespace headcount {

OpCase& CaseList::add(const std::string& name, const std::vector<Shape>& shapes,
                      CheckedFunction function) {
  const std::string full_name = std::string(headcount::name(op_)) + ", " + name;
  cases_.push_back({full_name, normal_inputs(full_name, shapes), std::move(function)});
  return cases_.back();
}

void make_delta_inputs(std::vector<CheckedInput>& inputs) {
  const auto width = static_cast<Real>(inputs[1].shape.last());
  for (Real& k : inputs[1].values) k *= Real{0.6} / std::sqrt(width);
  for (Real& g : inputs[3].values) g = Real{-0.3} * std::abs(g);
  for (Real& beta : inputs[4].values) beta = 1 / (1 + std::exp(-beta));
}

namespace {

using Inputs = std::span<const Var>;

// 0.7 or more away from zero, on the same side.
void move_off_zero(CheckedInput& input) {
  for (Real& x : input.values) x += std::copysign(Real{0.7}, x);
}

void add_elementwise(CaseList& cases, Var (*op)(Var, Var), bool divides) {
  const Index a = cases.pick(2, 37), b = cases.pick(3, 21), c = cases.pick(4, 59);
  const auto call = [op](Tape&, Inputs x) { return op(x[0], x[1]); };
  const auto add = [&](const std::string& name, const Shape& left, const Shape& right) {
    OpCase& added = cases.add(name, {left, right}, call);
    if (divides) move_off_zero(added.inputs[1]);
  };
  add("equal shapes", {a, b, c}, {a, b, c});
  add("rank 4", {2, a, b, c}, {2, a, b, c});
  add("a matrix repeated", {a, b, c}, {b, c});
  add("a vector repeated", {a, b, c}, {c});
  add("a scalar repeated", {b, c}, {});
  OpCase& twice =
      cases.add("one value twice", {{a, b, c}}, [op](Tape&, Inputs x) { return op(x[0], x[0]); });
  if (divides) move_off_zero(twice.inputs[0]);
}

void add_transpose(CaseList& cases) {
  const Index a = cases.pick(2, 7), b = cases.pick(3, 23), c = cases.pick(2, 11);
  const Index d = cases.pick(4, 29);
  const auto add = [&](const std::string& name, const Shape& shape, int first, int second) {
    cases.add(name, {shape}, [=](Tape&, Inputs x) { return transpose(x[0], first, second); });
  };
  add("rank 2", {b * a, d * c}, 0, 1);
  add("rank 3, the first two", {a * c, b, d}, 0, 1);
  add("rank 3, the last two", {a * c, b, d}, 1, 2);
  add("rank 3, the outer two", {a * c, b, d}, 0, 2);
  add("rank 4, heads and positions", {a, b, c, d}, 1, 2);
  add("rank 4, first and last", {a, b, c, d}, 0, 3);
  add("rank 4, given in descending order", {a, b, c, d}, 2, 0);
}

void add_split(CaseList& cases) {
  const Index rows = cases.pick(3, 700), a = cases.pick(2, 20), b = cases.pick(1, 9);
  const std::array sizes = {a, b, a + 1};
  cases.add("all pieces, in another order", {{2, rows, 2 * a + b + 1}}, [=](Tape&, Inputs x) {
    const std::vector<Var> pieces = split(x[0], sizes);
    return concat(concat(pieces[2], pieces[0]), pieces[1]);
  });
  cases.add("one piece of three", {{rows * 2, 2 * a + b + 1}},
            [=](Tape&, Inputs x) { return split(x[0], sizes)[1]; });
  cases.add("one piece twice", {{rows, 2, 2 * a + b + 1}}, [=](Tape&, Inputs x) {
    const std::vector<Var> pieces = split(x[0], sizes);
    return pieces[0] * pieces[0];
  });
}

void add_concat(CaseList& cases) {
  const Index a = cases.pick(2, 5), b = cases.pick(3, 41), c = cases.pick(2, 6);
  const Index d = cases.pick(3, 20), e = cases.pick(2, 7);
  const auto add = [&](const std::string& name, const Shape& left, const Shape& right) {
    cases.add(name, {left, right}, [](Tape&, Inputs x) { return concat(x[0], x[1]); });
  };
  add("vectors", {a * b * c * d}, {e});
  add("rank 2", {a * b * c, d}, {a * b * c, e});
  add("rank 4", {a, b, c, d}, {a, b, c, e});
  add("one key for all heads", {a, b, c, d}, {a, b, 1, e});
  add("one row for all sequences and heads", {a, b, c, d}, {1, b, 1, e});
  add("one row for all positions", {a, b, c, d}, {a, 1, c, e});
  add("one row for all", {a, b, c * d}, {1, 1, e});
  cases.add("one value twice", {{a, b, c, d}}, [](Tape&, Inputs x) { return concat(x[0], x[0]); });
}

void add_matrix_product(CaseList& cases) {
  const Index a = cases.pick(2, 3), b = cases.pick(2, 5), m = cases.pick(3, 37);
  const Index k = cases.pick(4, 30), n = cases.pick(2, 53);
  const auto add = [&](const std::string& name, const Shape& left, const Shape& right) {
    cases.add(name, {left, right}, [](Tape&, Inputs x) { return matrix_product(x[0], x[1]); });
  };
  add("rank 2", {m, k}, {k, n});
  add("rank 3", {b, m, k}, {b, k, n});
  add("rank 4", {a, b, m, k}, {a, b, k, n});
  add("row times column", {b, 1, k}, {b, k, 1});
  add("column times row", {b, m, 1}, {b, 1, n});
  cases.add("one value twice", {{b, m, m}},
            [](Tape&, Inputs x) { return matrix_product(x[0], x[0]); });
}

void add_head_linear(CaseList& cases) {
  const Index batch = 2, length = cases.pick(2, 37), heads = 3, r = cases.pick(4, 40);
  const Index block = cases.pick(5, 30), first = 1, count = block - 2;
  const Shape weight = {heads * block, r};
  cases.add("into the latent", {{batch, length, heads, count}, weight},
            [=](Tape&, Inputs x) { return head_linear(x[0], x[1], first, count, Stored::as_is); });
  cases.add("out of the latent", {{batch, length, heads, r}, weight}, [=](Tape&, Inputs x) {
    return head_linear(x[0], x[1], first, count, Stored::transposed);
  });
  cases.add("both with one weight", {{batch, length, heads, count}, weight}, [=](Tape&, Inputs x) {
    return head_linear(head_linear(x[0], x[1], 0, count, Stored::as_is), x[1], 2, count,
                       Stored::transposed);
  });
}

void add_linear(CaseList& cases) {
  const Index a = cases.pick(2, 3), b = cases.pick(3, 100), in = cases.pick(4, 48);
  const Index out = cases.pick(5, 72);
  const auto plain = [](Tape&, Inputs x) { return linear(x[0], x[1]); };
  const auto with_bias = [](Tape&, Inputs x) { return linear(x[0], x[1], x[2]); };
  cases.add("without bias", {{a, b, in}, {out, in}}, plain);
  cases.add("with bias", {{a, b, in}, {out, in}, {out}}, with_bias);
  cases.add("rank 4", {{a, 2, b, in}, {out, in}, {out}}, with_bias);
  cases.add("a single row", {{in}, {out, in}, {out}}, with_bias);
  cases.add("weight twice", {{a, b, in}, {in, in}},
            [](Tape&, Inputs x) { return linear(linear(x[0], x[1]), x[1]); });
}

std::vector<std::int32_t> random_ids(Index count, Index bound) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < count; ++i) {
    const auto id =
        random_below({1, 2, 3}, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(bound));
    ids.push_back(static_cast<std::int32_t>(id));
  }
  return ids;
}

void add_embedding(CaseList& cases) {
  const Index n = cases.pick(5, 65), width = cases.pick(3, 24);
  const Index a = cases.pick(2, 9), b = cases.pick(4, 120);
  const auto add = [&](const std::string& name, const Shape& rows) {
    cases.add(name, {{n, width}}, [=, ids = random_ids(rows.size(), n)](Tape&, Inputs x) {
      return embedding(x[0], ids, rows);
    });
  };
  add("a batch, ids repeated", {a, b});
  add("a sequence, ids repeated", {a * b});
}

void add_layer_norm(CaseList& cases) {
  const Index a = cases.pick(2, 3), b = cases.pick(3, 300), width = cases.pick(5, 48);
  const auto add = [&](const std::string& name, const Shape& shape, Real epsilon) {
    cases.add(name + ", weight and bias", {shape, {width}, {width}},
              [=](Tape&, Inputs x) { return layer_norm(x[0], x[1], x[2], epsilon); });
    cases.add(name + ", weight alone", {shape, {width}},
              [=](Tape&, Inputs x) { return layer_norm(x[0], x[1], std::nullopt, epsilon); });
  };
  add("rank 3", {a, b, width}, Real{1e-5});
  add("rank 1", {width}, Real{1e-5});
  add("large epsilon", {a * b, width}, Real{0.3});
}

void add_rms_norm(CaseList& cases) {
  const Index a = cases.pick(2, 3), b = cases.pick(3, 300), width = cases.pick(5, 48);
  const auto add = [&](const std::string& name, const Shape& shape, Real epsilon) {
    cases.add(name + ", weight", {shape, {width}},
              [=](Tape&, Inputs x) { return rms_norm(x[0], x[1], epsilon); });
    cases.add(name + ", no weight", {shape},
              [=](Tape&, Inputs x) { return rms_norm(x[0], std::nullopt, epsilon); });
  };
  add("rank 3", {a, b, width}, Real{1e-6});
  add("rank 1", {width}, Real{1e-6});
  add("rank 4, heads", {a, b, 2, width}, Real{1e-6});
  add("large epsilon", {a * b, width}, Real{0.3});
}

void add_unary(CaseList& cases, Var (*op)(Var)) {
  const Shape shape = {cases.pick(2, 31), cases.pick(3, 13), cases.pick(4, 97)};
  cases.add("rank 3", {shape}, [op](Tape&, Inputs x) { return op(x[0]); });
  OpCase& wide = cases.add("far from zero", {shape}, [op](Tape&, Inputs x) { return op(x[0]); });
  for (Real& x : wide.inputs[0].values) x *= Real{4};
}

void add_gate(CaseList& cases, Var (*op)(Var, Var)) {
  const Shape shape = {cases.pick(2, 31), cases.pick(3, 13), cases.pick(4, 97)};
  cases.add("rank 3", {shape, shape}, [op](Tape&, Inputs x) { return op(x[0], x[1]); });
  cases.add("one value twice", {shape}, [op](Tape&, Inputs x) { return op(x[0], x[0]); });
}

void add_dropout(CaseList& cases) {
  const Shape shape = {cases.pick(3, 39), cases.pick(3, 11), cases.pick(5, 101)};
  for (const Real probability : {Real{0.1}, Real{0.5}}) {
    const std::string name = "training, probability " + std::to_string(probability);
    cases.add(name, {shape}, [=](Tape& tape, Inputs x) {
      tape.set_training(true);
      tape.set_random(11, 3);
      return dropout(x[0], probability);
    });
  }
}

void add_rotary(CaseList& cases) {
  const Index batch = 2, length = cases.pick(3, 150), heads = cases.pick(2, 4);
  const Index width = cases.pick(6, 24), part = cases.pick(4, 16);
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    const std::string prefix = layout == RotaryLayout::half ? "half, " : "interleaved, ";
    const auto add = [&](const std::string& name, Index dim, Index first_position) {
      const auto table = std::make_shared<const RotaryTable>(dim, length + first_position, 100);
      cases.add(prefix + name, {{batch, length, heads, width}},
                [=](Tape&, Inputs x) { return rotary(x[0], *table, layout, first_position); });
    };
    add("whole head", width, 0);
    add("whole head, later positions", width, 5);
    add("part of the head", part, 0);
    add("part of the head, later positions", part, 5);
    const auto table = std::make_shared<const RotaryTable>(part, length, 100);
    cases.add(prefix + "back", {{batch, length, heads, width}},
              [=](Tape&, Inputs x) { return rotary(x[0], *table, layout, 0, Rotation::inverse); });
  }
}

void add_softmax(CaseList& cases) {
  const auto call = [](Tape&, Inputs x) { return softmax(x[0]); };
  cases.add("rank 1", {{cases.pick(5, 65)}}, call);
  cases.add("rank 3", {{cases.pick(2, 4), cases.pick(3, 90), cases.pick(4, 65)}}, call);
  cases.add("rank 4", {{2, 2, cases.pick(3, 50), cases.pick(4, 90)}}, call);
}

void add_causal_convolution(CaseList& cases) {
  const Index batch = 2, length = cases.pick(5, 90), channels = cases.pick(3, 40);
  const auto add = [&](const std::string& name, Index tokens, Index taps, Index first) {
    cases.add(name, {{batch, tokens, channels}, {channels + first + 1, 1, taps}},
              [=](Tape&, Inputs x) { return causal_convolution(x[0], x[1], first); });
  };
  add("four taps", length, 4, 0);
  add("one tap", length, 1, 0);
  add("more taps than tokens", 3, 6, 0);
  add("later channels of the weight", length, 2, 2);
  cases.add("one weight twice", {{batch, length, channels}, {2 * channels, 1, 3}},
            [=](Tape&, Inputs x) {
              return causal_convolution(causal_convolution(x[0], x[1], 0), x[1], channels);
            });
  for (const Index tokens : {length, Index{3}}) {
    cases.add("added to its input, " + std::to_string(tokens) + " tokens",
              {{batch, tokens, channels}, {channels + 2, 1, 4}},
              [=](Tape&, Inputs x) { return causal_convolution(x[0], x[1], 1, Skip::input); });
  }
  for (const Skip skip : {Skip::none, Skip::input}) {
    cases.add("of the last tokens" + std::string(skip == Skip::input ? ", added" : ""),
              {{batch, length, channels}, {channels, 1, 3}},
              [=](Tape&, Inputs x) { return causal_convolution(x[0], x[1], 0, skip, length - 4); });
  }
}

void add_gated_delta_rule(CaseList& cases) {
  const auto add = [&](const std::string& name, Index batch, Index length, Index groups,
                       Index heads, Index dk, Index dv) {
    const Shape keys = {batch, length, groups, dk}, betas = {batch, length, heads};
    for (const bool by_channel : {false, true}) {
      const Shape gates = by_channel ? Shape{batch, length, heads, dk} : betas;
      OpCase& added =
          cases.add(name + (by_channel ? ", decays of channels" : ""),
                    {keys, keys, {batch, length, heads, dv}, gates, betas},
                    [](Tape&, Inputs x) { return gated_delta_rule(x[0], x[1], x[2], x[3], x[4]); });
      make_delta_inputs(added.inputs);
    }
  };
  const Index dk = cases.pick(2, 20), dv = cases.pick(3, 33);
  add("few tokens", 2, cases.pick(4, 50), 1, 2, dk, dv);
  add("heads that share queries and keys", 1, cases.pick(3, 130), 2, 4, dk, 2);
  add("64 tokens", 1, 64, 1, 1, dk, dv);
  add("many tokens", cases.pick(1, 3), cases.pick(67, 150), cases.pick(1, 2), cases.pick(1, 2), dk,
      dv);
  OpCase& one = cases.add(
      "one value as query, key and value",
      {{2, cases.pick(3, 70), 2, 3}, {2, cases.pick(3, 70), 2}},
      [](Tape&, Inputs x) { return gated_delta_rule(x[0], x[0], x[0], scale(x[1], -1), x[1]); });
  for (Real& x : one.inputs[0].values) x *= Real{0.3};
  for (Real& x : one.inputs[1].values) x = 1 / (1 + std::exp(-x));
}

void add_cross_entropy(CaseList& cases) {
  const Index a = cases.pick(2, 4), b = cases.pick(3, 100), classes = cases.pick(5, 65);
  const auto add = [&](const std::string& name, const Shape& shape) {
    cases.add(name, {shape}, [ids = random_ids(shape.rows(), classes)](Tape&, Inputs x) {
      return cross_entropy(x[0], ids);
    });
  };
  add("rank 3", {a, b, classes});
  add("rank 2", {a * b, classes});
  add("a single row", {classes});
  cases.add("some rows not counted", {{a, b, classes}},
            [ids = random_ids(a * b, classes)](Tape&, Inputs x) mutable {
              for (std::size_t i = 0; i < ids.size(); i += 2) ids[i] = kNoTarget;
              return cross_entropy(x[0], ids);
            });
}

// There is no default case, so that the compiler warns of an op without cases.
void add_cases(Op op, CaseList& cases) {
  const Index a = cases.pick(4, 60), b = cases.pick(6, 700);
  switch (op) {
    case Op::leaf:
    case Op::parameter:
    case Op::read_rows:
    case Op::count_:
      return;
    case Op::add:
      return add_elementwise(cases, add, false);
    case Op::subtract:
      return add_elementwise(cases, subtract, false);
    case Op::multiply:
      return add_elementwise(cases, multiply, false);
    case Op::divide:
      return add_elementwise(cases, divide, true);
    case Op::scale:
      cases.add("negative", {{a, b}}, [](Tape&, Inputs x) { return scale(x[0], Real{-1.7}); });
      return;
    case Op::sum:
      cases.add("of a matrix", {{a, b}}, [](Tape&, Inputs x) { return sum(x[0]); });
      return;
    case Op::reshape:
      cases.add("rank 2 to 3", {{a, b}}, [=](Tape&, Inputs x) {
        return reshape(x[0], {a / 2, b, 2});
      });
      return;
    case Op::transpose:
      return add_transpose(cases);
    case Op::split:
      return add_split(cases);
    case Op::concat:
      return add_concat(cases);
    case Op::matrix_product:
      return add_matrix_product(cases);
    case Op::linear:
      return add_linear(cases);
    case Op::head_linear:
      return add_head_linear(cases);
    case Op::embedding:
      return add_embedding(cases);
    case Op::layer_norm:
      return add_layer_norm(cases);
    case Op::rms_norm:
      return add_rms_norm(cases);
    case Op::gelu:
      return add_unary(cases, [](Var x) { return gelu(x); });
    case Op::silu:
      return add_unary(cases, silu);
    case Op::silu_gate:
      return add_gate(cases, [](Var gate, Var up) { return silu_gate(gate, up); });
    case Op::sigmoid_gate:
      return add_gate(cases, sigmoid_gate);
    case Op::sigmoid:
      return add_unary(cases, sigmoid);
    case Op::softplus:
      return add_unary(cases, softplus);
    case Op::exponential:
      // Inputs near zero: farther away, the roundings of the greatest results would exceed the
      // smallest results.
      cases.add("of a matrix", {{a, b}}, [](Tape&, Inputs x) { return exponential(x[0]); });
      return;
    case Op::soft_cap:
      return add_unary(cases, [](Var x) { return soft_cap(x, Real{2}); });
    case Op::dropout:
      return add_dropout(cases);
    case Op::rotary:
      return add_rotary(cases);
    case Op::softmax:
      return add_softmax(cases);
    case Op::attention:
      return add_attention_cases(cases);
    case Op::causal_convolution:
      return add_causal_convolution(cases);
    case Op::pool_tokens:
      return add_pool_tokens_cases(cases);
    case Op::pick_rows:
      return add_pick_rows_cases(cases);
    case Op::index_loss:
      return add_index_loss_cases(cases);
    case Op::gated_delta_rule:
      return add_gated_delta_rule(cases);
    case Op::cross_entropy:
      return add_cross_entropy(cases);
  }
}

}  // namespace

std::vector<OpCase> op_cases(Op op, CaseSize size) {
  CaseList cases(op, size);
  add_cases(op, cases);
  return cases.take();
}

std::string_view checked_without_cases(Op op) {
  if (op == Op::leaf) return "computes nothing; the inputs of every case are leaves";
  if (op == Op::parameter) return "computes nothing; GradientParameters checks a store's";
  if (op == Op::read_rows) return "a copy of what a cache holds, which has no gradient";
  return "";
}

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < static_cast<int>(Op::count_); ++i) ops.push_back(static_cast<Op>(i));
  return ops;
}

std::vector<Op> ops_with_cases() {
  std::vector<Op> ops = all_ops();
  std::erase_if(ops, [](Op op) { return !checked_without_cases(op).empty(); });
  return ops;
}

}  // namespace headcount
