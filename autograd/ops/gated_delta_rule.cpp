#include <algorithm>
#include <cmath>
#include <utility>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products.h"

namespace headcount {

namespace {

constexpr Index kChunk = kDeltaChunk;
static_assert(kChunk % kLanes == 0);

struct Problem {
  const Real *q, *k, *v, *g, *beta;
  Index batch, length, groups, heads, dk, dv;

  Index chunks() const { return (length + kChunk - 1) / kChunk; }
  Index state_size() const { return dk * dv; }
  Index group_size() const { return heads / groups; }
  Index key_group(Index head) const { return head / group_size(); }
  // Offsets of token t of head h in q and k, in v and y, and in g and beta.
  Index key_at(Index b, Index t, Index h) const {
    return ((b * length + t) * groups + key_group(h)) * dk;
  }
  Index value_at(Index b, Index t, Index h) const { return gate_at(b, t, h) * dv; }
  Index gate_at(Index b, Index t, Index h) const { return (b * length + t) * heads + h; }
};

struct Sinks {
  GradientSink q, k, v, g, beta;
};

// Multiplies row i of a matrix [count, width] by factors[i].
void scale_rows(Real* rows, Index count, Index width, const Real* factors) {
  for (Index i = 0; i < count; ++i) array(rows + i * width, width) *= factors[i];
}
void copy_scaled(const Real* rows, Index count, Index width, const Real* factors, Real* to) {
  for (Index i = 0; i < count; ++i)
    array(to + i * width, width) = array(rows + i * width, width) * factors[i];
}

// One head of one sequence, chunk by chunk. In a chunk of n tokens that begins with the state S,
// let
//     G be the sums of g up to each token,
//     D_ti = e^(G_t - G_i) for i <= t, 0 above the diagonal,
//     A = D o (K K^T) below the diagonal, 0 elsewhere, and b the betas.
// The errors E that the tokens correct solve a triangular system:
//     E = N (V - e^G o (K S)),  N = (I + A diag(b))^-1,  U = b o E
//     Y = e^G o (Q S) + P U,  P = D o (Q K^T);  S' = e^(G_n) S + K^T (e^(G_n - G) o U)
// Backward, with dS' the gradient of the state after the chunk:
//     dU = P^T dY + e^(G_n - G) o (K dS'),  dE = N^T (b o dU) = dV,  M = dE E^T
//     db = rowsum(E o dU) - colsum(A o M),  dKK = -D o (M diag(b)) below the diagonal
//     dQK = D o (dY U^T),  dKS = -e^G o dE
//     dQ = e^G o (dY S^T) + dQK K,  dS = e^(G_n) dS' + (e^G o Q)^T dY + K^T dKS
// Each key reads (in row t of A, and in K S) and writes (in column i of A and P, and into S'):
//     dK_read = dKS S^T + dKK K,  dK_write = dKK^T K + dQK^T Q + e^(G_n - G) o (U dS'^T)
// Terms of q_t and of a reading k_t have a factor e^(G_t), terms of a writing k_i one of e^(-G_i):
//     dG = rowsum(Q o dQ + K o (dK_read - dK_write)), and <dS', S'> more for the last token.
class Head {
 public:
  static Index memory_size(const Problem& p) {
    return 6 * kChunk * kChunk + 7 * kChunk + kChunk * (5 * aligned(p.dv) + 4 * aligned(p.dk)) +
           aligned(p.state_size());
  }

  Head(const Problem& problem, Index batch, Index head, Real* memory)
      : p(problem), b(batch), h(head) {
    const auto take = [&](Index count) { return std::exchange(memory, memory + aligned(count)); };
    for (Real** matrix : {&decay, &keys, &inverse, &scores, &m, &d_scores})
      *matrix = take(kChunk * kChunk);
    for (Real** vector : {&sums, &fade, &rest, &betas, &factors, &d_sums, &d_betas})
      *vector = take(kChunk);
    for (Real** row : {&errors, &updates, &d_updates, &d_errors, &other})
      *row = take(kChunk * p.dv);
    for (Real** row : {&faded_q, &dq, &dk_read, &dk_write}) *row = take(kChunk * p.dk);
    spare_state = take(p.state_size());
  }

  // Computes the outputs; `state` becomes the state after the last token. The state before each
  // chunk is stored in `states`, unless that is null. Without `state`, the first state is zero.
  void forward(Real* y, Real* state, Real* states) {
    Real* const s = state == nullptr ? spare_state : state;
    if (state == nullptr) std::fill_n(s, p.state_size(), Real{0});
    for (Index first = 0; first < p.length; first += kChunk) {
      if (states != nullptr)
        std::copy_n(s, p.state_size(), states + first / kChunk * p.state_size());
      enter(first, s);
      const Matrix out(y + p.value_at(b, t0, h), n, p.dv, p.heads * p.dv);
      gemm(out, of_keys(faded_q), matrix_of(s));
      gemm(out, square(scores), values(updates), Write::add);
      array(s, p.state_size()) *= fade[n - 1];
      copy_scaled(updates, n, p.dv, rest, other);
      gemm(Matrix(s, p.dk, p.dv), k().transpose(), values(other), Write::add);
    }
  }

  // `first_of_group`: no head has written to the gradients of its q and k yet.
  void backward(const Real* dy, const Real* states, const Sinks& sinks, bool first_of_group) {
    Real* const ds = spare_state;
    std::fill_n(ds, p.state_size(), Real{0});
    for (Index chunk = p.chunks() - 1; chunk >= 0; --chunk) {
      const Real* const state = states + chunk * p.state_size();
      enter(chunk * kChunk, state);
      const ConstMatrix d_out(dy + p.value_at(b, t0, h), n, p.dv, p.heads * p.dv);
      update_gradients(d_out, ds);
      query_and_key_gradients(d_out, state, ds);
      if (chunk + 1 < p.chunks()) {
        const Real* const next = state + p.state_size();
        d_sums[n - 1] +=
            (array(static_cast<const Real*>(ds), p.state_size()) * array(next, p.state_size()))
                .sum();
      }
      state_gradient(d_out, ds);
      put_gradients(sinks, first_of_group);
    }
  }

 private:
  static Index aligned(Index count) {
    constexpr Index kAligned = kAlignment / sizeof(Real);
    return (count + kAligned - 1) / kAligned * kAligned;
  }
  ConstMatrix q() const { return {p.q + p.key_at(b, t0, h), n, p.dk, p.groups * p.dk}; }
  ConstMatrix k() const { return {p.k + p.key_at(b, t0, h), n, p.dk, p.groups * p.dk}; }
  Matrix square(Real* numbers) const { return {numbers, n, n, kChunk}; }
  Matrix values(Real* numbers) const { return {numbers, n, p.dv}; }
  Matrix of_keys(Real* numbers) const { return {numbers, n, p.dk}; }
  ConstMatrix matrix_of(const Real* state) const { return {state, p.dk, p.dv}; }
  ArrayMap row(Real* of_square, Index t) const { return array(of_square + t * kChunk, n); }

  // Computes everything in the chunk that begins with token `first` from the state before it.
  void enter(Index first, const Real* state) {
    t0 = first;
    n = std::min(kChunk, p.length - t0);
    gates();
    gemm(square(keys), k(), k().transpose());
    gemm(square(scores), q(), k().transpose());
    for (Index t = 0; t < n; ++t) {
      row(keys, t) *= row(decay, t);
      row(scores, t) *= row(decay, t);
      keys[t * kChunk + t] = 0;
      array(faded_q + t * p.dk, p.dk) = array(q().data + t * q().stride, p.dk) * fade[t];
    }
    invert();
    gemm(values(other), k(), matrix_of(state));
    for (Index t = 0; t < n; ++t) {
      ArrayMap x = array(other + t * p.dv, p.dv);
      x = array(p.v + p.value_at(b, t0 + t, h), p.dv) - x * fade[t];
    }
    gemm(values(errors), square(inverse), values(other));
    copy_scaled(errors, n, p.dv, betas, updates);
  }

  // sums = G, fade = e^G, rest = e^(G_n - G), betas, decay = D.
  void gates() {
    Real sum = 0;
    for (Index t = 0; t < kChunk; ++t) {
      const Index at = p.gate_at(b, t0 + std::min(t, n - 1), h);
      if (t < n) sum += p.g[at];
      sums[t] = sum;
      betas[t] = t < n ? p.beta[at] : 0;
    }
    array(fade, kChunk) = array(sums, kChunk).exp();
    array(rest, kChunk) = (sum - array(sums, kChunk)).exp();
    for (Index t = 0; t < n; ++t) {
      Real* const d = decay + t * kChunk;
      for (Index i = 0; i <= t; i += kLanes)
        lanes<kLanes>(d + i) = (sums[t] - lanes<kLanes>(sums + i)).exp();
      // Above the diagonal, where the exponent may be large.
      std::fill(d + t + 1, d + kChunk, Real{0});
    }
  }

  // Row t of N is e_t - sum over i < t of A_ti b_i N_i.
  void invert() {
    for (Index t = 0; t < n; ++t) {
      array(factors, n) = row(keys, t) * array(betas, n);
      Real* const result = inverse + t * kChunk;
      for (Index column = 0; column < kChunk; column += kLanes) {
        // Two sums, so that additions do not wait for each other.
        Lanes<kLanes> even = Lanes<kLanes>::Zero(), odd = even;
        Index i = column;
        for (; i + 1 < t; i += 2) {
          even += factors[i] * lanes<kLanes>(inverse + i * kChunk + column);
          odd += factors[i + 1] * lanes<kLanes>(inverse + (i + 1) * kChunk + column);
        }
        if (i < t) even += factors[i] * lanes<kLanes>(inverse + i * kChunk + column);
        lanes<kLanes>(result + column) = -(even + odd);
      }
      result[t] = 1;
    }
  }

  // d_updates = dU, d_errors = dE, d_betas = db, m = dKK, d_scores = dQK; other = dKS.
  void update_gradients(const ConstMatrix& d_out, const Real* ds) {
    gemm(values(d_updates), k(), matrix_of(ds));
    scale_rows(d_updates, n, p.dv, rest);
    gemm(values(d_updates), transpose(square(scores)), d_out, Write::add);
    copy_scaled(d_updates, n, p.dv, betas, other);
    gemm(values(d_errors), transpose(square(inverse)), values(other));
    gemm(square(m), values(d_errors), transpose(values(errors)));
    gemm(square(d_scores), d_out, transpose(values(updates)));
    for (Index t = 0; t < n; ++t) {
      const Index at = t * p.dv;
      d_betas[t] = (array(errors + at, p.dv) * array(d_updates + at, p.dv)).sum();
      array(other + at, p.dv) = array(d_errors + at, p.dv) * -fade[t];
    }
    for (Index t = 0; t < n; ++t) {
      array(d_betas, n) -= row(keys, t) * row(m, t);
      row(m, t) *= -array(betas, n) * row(decay, t);
      m[t * kChunk + t] = 0;
      row(d_scores, t) *= row(decay, t);
    }
  }

  // dq, dk_read, dk_write and d_sums = dG without <dS', S'>.
  void query_and_key_gradients(const ConstMatrix& d_out, const Real* state, const Real* ds) {
    const Matrix into_q = of_keys(dq), reads = of_keys(dk_read), writes = of_keys(dk_write);
    gemm(into_q, d_out, matrix_of(state).transpose());
    scale_rows(dq, n, p.dk, fade);
    gemm(into_q, square(d_scores), k(), Write::add);
    gemm(reads, values(other), matrix_of(state).transpose());
    gemm(reads, square(m), k(), Write::add);
    gemm(writes, values(updates), matrix_of(ds).transpose());
    scale_rows(dk_write, n, p.dk, rest);
    gemm(writes, transpose(square(m)), k(), Write::add);
    gemm(writes, transpose(square(d_scores)), q(), Write::add);
    for (Index t = 0; t < n; ++t) {
      const Index at = t * p.dk, row = p.key_at(b, t0 + t, h);
      d_sums[t] =
          (array(p.q + row, p.dk) * array(dq + at, p.dk) +
           array(p.k + row, p.dk) * (array(dk_read + at, p.dk) - array(dk_write + at, p.dk)))
              .sum();
    }
  }

  // dS' becomes dS.
  void state_gradient(const ConstMatrix& d_out, Real* ds) {
    array(ds, p.state_size()) *= fade[n - 1];
    const Matrix into(ds, p.dk, p.dv);
    gemm(into, transpose(of_keys(faded_q)), d_out, Write::add);
    gemm(into, k().transpose(), values(other), Write::add);
  }

  void put_gradients(const Sinks& sinks, bool first_of_group) {
    const auto shared = [&](const GradientSink& sink) {
      return GradientSink{sink.data, first_of_group ? sink.write : Write::add};
    };
    Real dg = 0;  // g_i is a term of G_t for all t >= i
    for (Index t = n - 1; t >= 0; --t) {
      const Index key = p.key_at(b, t0 + t, h), gate = p.gate_at(b, t0 + t, h);
      if (sinks.q) put(shared(sinks.q), key, array(dq + t * p.dk, p.dk));
      if (sinks.k) {
        put(shared(sinks.k), key,
            array(dk_read + t * p.dk, p.dk) + array(dk_write + t * p.dk, p.dk));
      }
      if (sinks.v) put(sinks.v, p.value_at(b, t0 + t, h), array(d_errors + t * p.dv, p.dv));
      dg += d_sums[t];
      if (sinks.g) sinks.g.put(gate, dg);
      if (sinks.beta) sinks.beta.put(gate, d_betas[t]);
    }
  }

  const Problem& p;
  Index b, h;
  Index t0 = 0, n = 0;  // the chunk: its first token, and how many there are
  Real *decay, *keys, *inverse, *scores, *m, *d_scores;           // [kChunk, kChunk]
  Real *sums, *fade, *rest, *betas, *factors, *d_sums, *d_betas;  // [kChunk]
  Real *errors, *updates, *d_updates, *d_errors, *other;          // [n, dv]
  Real *faded_q, *dq, *dk_read, *dk_write;                        // [n, dk]
  Real* spare_state;                                              // [dk, dv]
};

// Calls body(b, h, memory) for every head, with memory for a Head; in parallel over heads that
// share no q and k.
template <class Body>
void for_heads(Tape& tape, const Problem& p, const Body& body) {
  const Index size = (Head::memory_size(p) + kChunk - 1) / kChunk * kChunk;
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
void step(const Problem& p, Real* y, Real* states) {
  parallel_for(p.batch * p.heads, task_chunk(3 * p.state_size()), [&](Index i) {
    Real *const s = states + i * p.state_size(), *const out = y + i * p.dv;
    const Index key = p.key_at(i / p.heads, 0, i % p.heads);
    const ConstMatrix q(p.q + key, 1, p.dk), k(p.k + key, 1, p.dk), state(s, p.dk, p.dv);
    array(s, p.state_size()) *= std::exp(p.g[i]);
    gemm(Matrix(out, 1, p.dv), k, state);
    array(out, p.dv) = (array(p.v + i * p.dv, p.dv) - array(out, p.dv)) * p.beta[i];
    gemm(Matrix(s, p.dk, p.dv), k.transpose(), ConstMatrix(out, 1, p.dv), Write::add);
    gemm(Matrix(out, 1, p.dv), q, state);
  });
}

Problem make_problem(Tape& tape, Var q, Var k, Var v, Var g, Var beta, std::span<Real> state) {
  const Shape qs = tape.shape(q), ks = tape.shape(k), vs = tape.shape(v);
  const Shape gs = tape.shape(g), bs = tape.shape(beta);
  const auto fail_unless = [&](bool condition, std::string_view message) {
    require(condition, Op::gated_delta_rule, message, " (q ", qs, ", k ", ks, ", v ", vs, ", g ",
            gs, ", beta ", bs, ")");
  };
  fail_unless(qs.rank() == 4 && vs.rank() == 4 && qs == ks, "q and k must be [B, T, G, Dk] alike");
  fail_unless(vs[0] == qs[0] && vs[1] == qs[1], "q and v must have the same sequences and tokens");
  fail_unless(qs[2] > 0 && vs[2] % qs[2] == 0, "heads must be a multiple of those of q and k");
  fail_unless((gs == Shape{vs[0], vs[1], vs[2]}) && gs == bs, "g and beta must be [B, T, H]");
  if (!state.empty()) {
    fail_unless(std::ssize(state) == vs[0] * vs[2] * qs[3] * vs[3], "a state is [B, H, Dk, Dv]");
    for (const Var input : {q, k, v, g, beta})
      fail_unless(!tape.needs_gradient(input),
                  "a state has no gradient; use a tape that computes none");
  }
  return {tape.value(q), tape.value(k), tape.value(v), tape.value(g), tape.value(beta),
          vs[0],         vs[1],         qs[2],         vs[2],         qs[3],
          vs[3]};
}

}  // namespace

Var gated_delta_rule(Var q, Var k, Var v, Var g, Var beta, std::span<Real> state) {
  Tape& tape = tape_of(q);
  const Problem p = make_problem(tape, q, k, v, g, beta, state);
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
      Head(p, b, h, memory)
          .forward(out, state.empty() ? nullptr : state.data() + at * size,
                   states == nullptr ? nullptr : states + at * p.chunks() * size);
    });
  }
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const Sinks sinks{t.gradient_sink(q), t.gradient_sink(k), t.gradient_sink(v),
                      t.gradient_sink(g), t.gradient_sink(beta)};
    for_heads(t, p, [&](Index b, Index h, Real* memory) {
      Head(p, b, h, memory)
          .backward(dy, states + (b * p.heads + h) * p.chunks() * size, sinks,
                    h % p.group_size() == 0);
    });
  });
  return y;
}

}  // namespace headcount
