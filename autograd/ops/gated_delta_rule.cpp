#include <algorithm>
#include <limits>
#include <string_view>

#include "autograd/ops.h"
#include "autograd/ops/support.h"
#include "autograd/parallel.h"
#include "autograd/products/mac_counter.h"
#include "autograd/products/products.h"

namespace headcount {

namespace {

// Tokens between two states that forward stores; backward computes the states between them again.
constexpr Index kStored = 64;

struct DeltaProblem {
  const Real *q, *k, *v, *g, *beta;
  Index batch, length, groups, heads, dk, dv;
  bool by_channel;  // g has a number for each channel of k, not for each head alone

  Index state_size() const { return dk * dv; }
  Index stored_states() const { return (length + kStored - 1) / kStored; }
  Index group_size() const { return heads / groups; }
};

struct DeltaSinks {
  GradientSink beta, v, q, k, g;  // in the order in which a token's gradients are written
};

// One head of one sequence, token by token. A token fades the state S and corrects the error of its
// answer to the key:
//     S' = e^g o S,  E = v - S'^T k,  U = beta E,  S = S' + k U^T,  y = S^T q
// Backward, where dS is the gradient of the state after a token that comes from later ones:
//     dA = dS + q dy^T,  dU = dA^T k,  W = -beta dU,  dS' = dA + k W^T,  e^g o dS' is dS before it
//     dq = S dy,  dk = dA U + S' W,  dg = rowsum(dS' o S'),  dv = -W,  dbeta = E . dU
// Forward keeps E, and a first loop backward finds W, both for many columns of the state at a time.
// With E and W known, no row depends on another: a second loop computes S and dS of many rows at a
// time, so that no sum runs across the lanes of a vector. With AVX-512 this is faster than products
// of matrices, chunk by chunk, for heads of 16 to 128.
class DeltaHead {
 public:
  DeltaHead(const DeltaProblem& problem, Index batch, Index head, Real* memory)
      : p(problem),
        b(batch),
        h(head),
        rows_(memory),
        updates_(rows_ + (kStored + 1) * p.dv * kLanes),
        d_reads_(updates_ + kStored * p.dv),
        decays_(d_reads_ + kStored * p.dv),
        d_gates_(decays_ + kStored * p.dk),
        ds_(d_gates_ + kStored),
        ds_rows_(ds_ + p.state_size()) {}
  // Size of `memory`, in numbers.
  static Index memory_size(const DeltaProblem& p) {
    return ((kStored + 1) * kLanes + 2 * kStored) * p.dv + kStored * (p.dk + 1) +
           2 * p.state_size();
  }

  // Goes on from `state`, which becomes the last one; null: from zeros. Writes E, which may share
  // memory with y, and the states before every kStored-th token, unless `states` is null.
  void forward(Real* y, Real* errors, Real* state, Real* states) {
    if (state == nullptr) std::fill_n(state = ds_, p.state_size(), Real{0});
    Real *const decays = decays_, *const reads = decays_ + p.dk;
    for (Index t = 0; t < p.length; ++t) {
      if (states != nullptr && t % kStored == 0)
        std::copy_n(state, p.state_size(), states + t / kStored * p.state_size());
      const Real *const q = p.q + key_at(t), *const k = p.k + key_at(t), beta = p.beta[beta_at(t)];
      find_decays(t, decays);
      array(reads, p.dk) = array(k, p.dk) * array(decays, p.dk);
      for_lanes(p.dv, [&]<int kCount>(Index j) {
        const Index at = value_at(t) + j;
        const Lanes<kCount> error = lanes<kCount>(p.v + at) - combined<kCount>(reads, state + j);
        lanes<kCount>(errors + at) = error;
        const Lanes<kCount> update = beta * error;
        Lanes<kCount> out = Lanes<kCount>::Zero();
        for (Index c = 0; c < p.dk; ++c) {
          auto row = lanes<kCount>(state + c * p.dv + j);
          const Lanes<kCount> next = decays[c] * row + k[c] * update;
          row = next;
          out += q[c] * next;
        }
        lanes<kCount>(y + at) = out;
      });
    }
  }

  void backward(const Real* dy, const Real* errors, const Real* states, DeltaSinks sinks) {
    if (h % p.group_size() > 0) sinks.q.write = sinks.k.write = Write::add;
    std::fill_n(ds_, 2 * p.state_size(), Real{0});
    for (Index i = p.stored_states() - 1; i >= 0; --i) {
      first_ = i * kStored;
      count_ = std::min(kStored, p.length - first_);
      std::fill_n(d_gates_, kStored, Real{0});
      for (Index t = count_ - 1; t >= 0; --t) find_updates(t, dy, errors, sinks);
      for_lanes(p.dk, [&]<int kCount>(Index c) {
        find_rows<kCount>(c, states + i * p.state_size());
        for (Index t = count_ - 1; t >= 0; --t) put_row_gradients<kCount>(t, c, dy, sinks);
      });
      for (Index t = 0; t < count_ && sinks.g && !p.by_channel; ++t)
        sinks.g.put(beta_at(first_ + t), d_gates_[t]);
    }
  }

 private:
  Index beta_at(Index t) const { return (b * p.length + t) * p.heads + h; }
  Index value_at(Index t) const { return beta_at(t) * p.dv; }
  Index key_at(Index t) const {
    return ((b * p.length + t) * p.groups + h / p.group_size()) * p.dk;
  }

  // e^g of each channel. Denormal numbers, on which arithmetic is slow, become 0.
  void find_decays(Index t, Real* decays) const {
    constexpr Real kLeast = std::numeric_limits<Real>::min();
    const Index count = p.by_channel ? p.dk : 1;
    array(decays, count) = array(p.g + beta_at(t) * count, count).exp();
    array(decays, count) = (array(decays, count) < kLeast).select(Real{0}, array(decays, count));
    std::fill(decays + count, decays + p.dk, decays[0]);
  }

  // S^T x of a matrix [dk, dv], for kCount of its columns.
  template <int kCount>
  Lanes<kCount> combined(const Real* x, const Real* s) const {
    // Two sums, so that additions do not wait for each other.
    Lanes<kCount> even = Lanes<kCount>::Zero(), odd = even;
    Index c = 0;
    for (; c + 1 < p.dk; c += 2) {
      even += x[c] * lanes<kCount>(s + c * p.dv);
      odd += x[c + 1] * lanes<kCount>(s + (c + 1) * p.dv);
    }
    if (c < p.dk) even += x[c] * lanes<kCount>(s + c * p.dv);
    return even + odd;
  }

  // U and W of token t of the stretch, its gradients of v and beta, and dS before it.
  void find_updates(Index t, const Real* dy, const Real* errors, const DeltaSinks& sinks) {
    const Index key = key_at(first_ + t), value = value_at(first_ + t), head = beta_at(first_ + t);
    const Real *const q = p.q + key, *const k = p.k + key, beta = p.beta[head];
    Real* const decays = decays_ + t * p.dk;
    find_decays(first_ + t, decays);
    const Real qk = (array(q, p.dk) * array(k, p.dk)).sum();
    LaneSum d_beta;
    for_lanes(p.dv, [&]<int kCount>(Index j) {
      const Lanes<kCount> d_out = lanes<kCount>(dy + value + j);
      const Lanes<kCount> error = lanes<kCount>(errors + value + j);
      const Lanes<kCount> d_update = qk * d_out + combined<kCount>(k, ds_ + j);
      const Lanes<kCount> d_read = -beta * d_update;
      lanes<kCount>(updates_ + t * p.dv + j) = beta * error;
      lanes<kCount>(d_reads_ + t * p.dv + j) = d_read;
      for (Index c = 0; c < p.dk; ++c) {
        auto row = lanes<kCount>(ds_ + c * p.dv + j);
        row = decays[c] * (row + q[c] * d_out + k[c] * d_read);
      }
      d_beta.add(d_update * error);
      if (sinks.v) put_lanes(sinks.v, value + j, -d_read);
    });
    if (sinks.beta) sinks.beta.put(head, d_beta.total());
  }

  // Rows c to c + kCount of the states before each token of the stretch and after the last one.
  template <int kCount>
  void find_rows(Index c, const Real* state) {
    for (Index j = 0; j < p.dv; ++j) {
      for (Index i = 0; i < kCount; ++i) rows_[j * kCount + i] = state[(c + i) * p.dv + j];
    }
    Real* row = rows_;
    for (Index t = 0; t < count_; ++t) {
      const Lanes<kCount> decay = lanes<kCount>(decays_ + t * p.dk + c);
      const Lanes<kCount> k = lanes<kCount>(p.k + key_at(first_ + t) + c);
      for (Index j = 0; j < p.dv; ++j, row += kCount)
        lanes<kCount>(row + p.dv * kCount) =
            decay * lanes<kCount>(row) + k * updates_[t * p.dv + j];
    }
  }

  // Gradients of q, k and g of token t in rows c to c + kCount, and these rows of dS before it.
  template <int kCount>
  void put_row_gradients(Index t, Index c, const Real* dy, const DeltaSinks& sinks) {
    const Index key = key_at(first_ + t) + c;
    const Lanes<kCount> decay = lanes<kCount>(decays_ + t * p.dk + c);
    const Lanes<kCount> q = lanes<kCount>(p.q + key), k = lanes<kCount>(p.k + key);
    const Real *const d_out = dy + value_at(first_ + t), *const update = updates_ + t * p.dv;
    const Real *const d_read = d_reads_ + t * p.dv, *before = rows_ + t * p.dv * kCount;
    Real* ds = ds_rows_ + c * p.dv;
    Lanes<kCount> dq = Lanes<kCount>::Zero(), dk = dq, d_faded_key = dq, dg = dq;
    for (Index j = 0; j < p.dv; ++j, before += kCount, ds += kCount) {
      const Lanes<kCount> faded = decay * lanes<kCount>(before);
      const Lanes<kCount> d_after = lanes<kCount>(ds) + q * d_out[j];
      const Lanes<kCount> d_faded = d_after + k * d_read[j];
      dq += d_out[j] * lanes<kCount>(before + p.dv * kCount);
      dk += update[j] * d_after;
      d_faded_key += d_read[j] * faded;
      dg += d_faded * faded;
      lanes<kCount>(ds) = decay * d_faded;
    }
    if (sinks.q) put_lanes(sinks.q, key, dq);
    if (sinks.k) put_lanes(sinks.k, key, dk + d_faded_key);
    if (sinks.g && p.by_channel) put_lanes(sinks.g, beta_at(first_ + t) * p.dk + c, dg);
    d_gates_[t] += dg.sum();
  }

  const DeltaProblem& p;
  Index b, h;
  Index first_ = 0, count_ = 0;  // of the tokens of the stretch that backward is in
  Real* rows_;                   // [count + 1, dv, kLanes]
  Real *updates_, *d_reads_;     // [count, dv]: U and W
  Real *decays_, *d_gates_;      // [count, dk] and [count]
  Real *ds_, *ds_rows_;          // [dk, dv]: dS, and dS by rows, [dv, kLanes] for each kLanes rows
};

// Calls body(b, h, memory) for every head, with memory for one; in parallel over heads that
// share no q and k.
template <class Body>
void for_heads(Tape& tape, const DeltaProblem& p, const Body& body) {
  const Index size = (DeltaHead::memory_size(p) + kLanes - 1) / kLanes * kLanes;
  const std::int64_t macs = std::int64_t{3} * p.length * p.group_size() * p.state_size();
  const auto run = [&](Index task, Real* memory) {
    const Index first = task % p.groups * p.group_size();
    for (Index h = first; h < first + p.group_size(); ++h)
      body(task / p.groups * p.heads + h, DeltaHead(p, task / p.groups, h, memory));
  };
  parallel_with_scratch(tape.pool(), p.batch * p.groups, macs, size, run);
}

DeltaProblem make_problem(Tape& tape, Var q, Var k, Var v, Var g, Var beta, std::span<Real> state) {
  const Shape qs = tape.shape(q), ks = tape.shape(k), vs = tape.shape(v);
  const Shape gs = tape.shape(g), bs = tape.shape(beta);
  const auto fail_unless = [&](bool condition, std::string_view message) {
    require(condition, Op::gated_delta_rule, "{} (q {}, k {}, v {}, g {}, beta {})", message, qs,
            ks, vs, gs, bs);
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
Var gated_delta_rule(Var q, Var k, Var v, Var g, Var beta, std::span<Real> state) {
  Tape& tape = tape_of(q);
  const DeltaProblem p = make_problem(tape, q, k, v, g, beta, state);
  const Var y = tape.record(Op::gated_delta_rule, tape.shape(v), {q, k, v, g, beta});
  if (tape.dry(y, Count(3) * tape.shape(v).size() * p.dk)) return y;
  Real* const out = tape.value(y);
  const Index size = p.state_size(), heads = p.batch * p.heads;
  const bool trains = tape.needs_gradient(y);
  Real* const errors = trains ? tape.scratch(tape.shape(v).size()) : out;
  Real* const stored = trains ? tape.scratch(heads * p.stored_states() * size) : nullptr;
  count_macs(std::int64_t{3} * p.length * heads * size);
  for_heads(tape, p, [&](Index i, DeltaHead head) {
    head.forward(out, errors, state.empty() ? nullptr : state.data() + i * size,
                 trains ? stored + i * p.stored_states() * size : nullptr);
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const DeltaSinks sinks{t.gradient_sink(beta), t.gradient_sink(v), t.gradient_sink(q),
                           t.gradient_sink(k), t.gradient_sink(g)};
    for_heads(t, p, [&](Index i, DeltaHead head) {
      head.backward(dy, errors, stored + i * p.stored_states() * size, sinks);
    });
  });
  return y;
}

}  // namespace headcount
