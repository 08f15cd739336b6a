#include <algorithm>
#include <cmath>
#include <string_view>

#include "autograd/ops.h"
#include "autograd/ops/delta_head.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

constexpr Index kChunk = kDeltaChunk;

std::unique_ptr<DeltaHead> make_head(const DeltaProblem& p, Index b, Index h, Real* memory,
                                     Index* taken = nullptr) {
  DeltaMemory own(memory);
  auto head = p.by_channel ? delta_of_channels(p, b, h, own) : delta_of_heads(p, b, h, own);
  if (taken != nullptr) *taken = own.taken();
  return head;
}

// Calls body(b, h, memory) for every head, with memory for one; in parallel over heads that
// share no q and k.
template <class Body>
void for_heads(Tape& tape, const DeltaProblem& p, const Body& body) {
  Index size = 0;
  make_head(p, 0, 0, nullptr, &size);
  size = (size + kChunk - 1) / kChunk * kChunk;
  const Index threads_here = OnOneThread::active() ? 1 : threads();
  Real* const memory = tape.pool().take(threads_here * size);
  const Index macs = p.length * p.group_size() * (p.dk + p.dv) * kChunk;
  parallel_chunks(p.batch * p.groups, task_chunk(macs), [&](Index begin, Index end) {
    Real* const own = memory + (threads_here == 1 ? 0 : this_thread() * size);
    for (Index task = begin; task < end; ++task) {
      const Index first = task % p.groups * p.group_size();
      for (Index h = first; h < first + p.group_size(); ++h) body(task / p.groups, h, own);
    }
  });
  tape.pool().give_back(memory);
}

// One token: the recurrence itself.
void step(const DeltaProblem& p, Real* y, Real* states) {
  parallel_for(p.batch * p.heads, task_chunk(3 * p.state_size()), [&](Index i) {
    Real *const s = states + i * p.state_size(), *const out = y + i * p.dv;
    const Index key = p.key_at(i / p.heads, 0, i % p.heads);
    const ConstMatrix q(p.q + key, 1, p.dk), k(p.k + key, 1, p.dk), state(s, p.dk, p.dv);
    if (p.by_channel) {
      for (Index c = 0; c < p.dk; ++c) array(s + c * p.dv, p.dv) *= std::exp(p.g[i * p.dk + c]);
    } else {
      array(s, p.state_size()) *= std::exp(p.g[i]);
    }
    gemm(Matrix(out, 1, p.dv), k, state);
    array(out, p.dv) = (array(p.v + i * p.dv, p.dv) - array(out, p.dv)) * p.beta[i];
    gemm(Matrix(s, p.dk, p.dv), k.transpose(), ConstMatrix(out, 1, p.dv), Write::add);
    gemm(Matrix(out, 1, p.dv), q, state);
  });
}

DeltaProblem make_problem(Tape& tape, Var q, Var k, Var v, Var g, Var beta, std::span<Real> state) {
  const Shape qs = tape.shape(q), ks = tape.shape(k), vs = tape.shape(v);
  const Shape gs = tape.shape(g), bs = tape.shape(beta);
  const auto fail_unless = [&](bool condition, std::string_view message) {
    require(condition, Op::gated_delta_rule, message, " (q ", qs, ", k ", ks, ", v ", vs, ", g ",
            gs, ", beta ", bs, ")");
  };
  fail_unless(qs.rank() == 4 && vs.rank() == 4 && qs == ks, "q and k must be [B, T, G, Dk] alike");
  fail_unless(vs[0] == qs[0] && vs[1] == qs[1], "q and v must have the same sequences and tokens");
  fail_unless(qs[2] > 0 && vs[2] % qs[2] == 0, "heads must be a multiple of those of q and k");
  const Shape of_heads{vs[0], vs[1], vs[2]}, of_channels{vs[0], vs[1], vs[2], qs[3]};
  fail_unless(bs == of_heads && (gs == of_heads || gs == of_channels),
              "beta must be [B, T, H] and g [B, T, H] or [B, T, H, Dk]");
  if (!state.empty()) {
    fail_unless(std::ssize(state) == vs[0] * vs[2] * qs[3] * vs[3], "a state is [B, H, Dk, Dv]");
    for (const Var input : {q, k, v, g, beta})
      fail_unless(!tape.needs_gradient(input),
                  "a state has no gradient; use a tape that computes none");
  }
  return {tape.value(q), tape.value(k), tape.value(v), tape.value(g), tape.value(beta),
          vs[0],         vs[1],         qs[2],         vs[2],         qs[3],
          vs[3],         gs.rank() == 4};
}

}  // namespace

// Token by token, for each head:
//   S_t = e^g_t o S_{t-1} + k_t (beta_t (v_t - k_t^T (e^g_t o S_{t-1})))^T,  y_t = q_t^T S_t
// The formulas of chunks and the gradients stand above DeltaHead in delta_head.h.
Var gated_delta_rule(Var q, Var k, Var v, Var g, Var beta, std::span<Real> state) {
  Tape& tape = tape_of(q);
  const DeltaProblem p = make_problem(tape, q, k, v, g, beta, state);
  const Var y = tape.record(Op::gated_delta_rule, tape.shape(v), {q, k, v, g, beta});
  Real* const out = tape.value(y);
  const Index size = p.state_size();
  Real* const states =
      tape.needs_gradient(y) ? tape.scratch(p.batch * p.heads * p.chunks() * size) : nullptr;
  if (!state.empty() && p.length == 1) {
    step(p, out, state.data());
  } else {
    for_heads(tape, p, [&](Index b, Index h, Real* memory) {
      const Index at = b * p.heads + h;
      make_head(p, b, h, memory)
          ->forward(out, state.empty() ? nullptr : state.data() + at * size,
                    states == nullptr ? nullptr : states + at * p.chunks() * size);
    });
  }
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const DeltaSinks sinks{t.gradient_sink(q), t.gradient_sink(k), t.gradient_sink(v),
                           t.gradient_sink(g), t.gradient_sink(beta)};
    for_heads(t, p, [&](Index b, Index h, Real* memory) {
      make_head(p, b, h, memory)
          ->backward(dy, states + (b * p.heads + h) * p.chunks() * size, sinks,
                     h % p.group_size() == 0);
    });
  });
  return y;
}

}  // namespace headcount
