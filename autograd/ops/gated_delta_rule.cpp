#include <algorithm>
#include <array>
#include <limits>
#include <optional>
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

// Numbers that g has: one for each head, at every token or for all tokens, or one for each channel
// of k at every token.
enum class Decay { of_head, fixed, of_channel };

// Multiply-accumulates for each number of a state and token.
template <bool kDelta>
constexpr std::int64_t kMacs = kDelta ? 3 : 2;

struct StateInputs {
  Var q, k, v, g;
  std::optional<Var> beta;

  std::array<Var, 5> all() const { return {q, k, v, g, beta.value_or(g)}; }
};

struct StateProblem {
  const Real *q, *k, *v, *g;
  const Real* beta;  // null: 1
  Index batch, length, groups, heads, dk, dv;
  Decay decay;

  Index state_size() const { return dk * dv; }
  Index stored_states() const { return (length + kStored - 1) / kStored; }
  Index group_size() const { return heads / groups; }
};

struct StateSinks {
  GradientSink beta, v, q, k, g;  // in the order in which a token's gradients are written
};

// One head of one sequence, token by token. A token fades the state S and, by the delta rule,
// corrects the error of its answer to the key:
//     S' = e^g o S,  E = v - S'^T k,  U = beta E,  S = S' + k U^T,  y = S^T q
// Backward, where dS is the gradient of the state after a token that comes from later ones:
//     dA = dS + q dy^T,  dU = dA^T k,  W = -beta dU,  dS' = dA + k W^T,  e^g o dS' is dS before it
//     dq = S dy,  dk = dA U + S' W,  dg = rowsum(dS' o S'),  dv = -W,  dbeta = E . dU
// Without the delta rule E = v, and the terms with S' W and k W^T are not there.
// Forward keeps E, and a first loop backward finds W, both for many columns of the state at a time.
// With E and W known, no row depends on another: a second loop computes S and dS of many rows at a
// time, so that no sum runs across the lanes of a vector. With AVX-512 this is faster than products
// of matrices, chunk by chunk, for heads of 16 to 128.
template <bool kDelta>
class StateHead {
 public:
  StateHead(const StateProblem& problem, Index batch, Index head, Real* memory)
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
  static Index memory_size(const StateProblem& p) {
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
      const Real *const q = p.q + key_at(t), *const k = p.k + key_at(t), beta = rate_at(t);
      find_decays(t, decays);
      if (kDelta) array(reads, p.dk) = array(k, p.dk) * array(decays, p.dk);
      for_lanes(p.dv, [&]<int kCount>(Index j) {
        const Index at = value_at(t) + j;
        Lanes<kCount> error = lanes<kCount>(p.v + at);
        if constexpr (kDelta) {
          error -= combined<kCount>(reads, state + j);
          lanes<kCount>(errors + at) = error;
        }
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

  void backward(const Real* dy, const Real* errors, const Real* states, StateSinks sinks) {
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
      for (Index t = 0; t < count_ && sinks.g && p.decay == Decay::of_head; ++t)
        sinks.g.put(beta_at(first_ + t), d_gates_[t]);
    }
  }

 private:
  Index beta_at(Index t) const { return (b * p.length + t) * p.heads + h; }
  Real rate_at(Index t) const { return p.beta == nullptr ? Real{1} : p.beta[beta_at(t)]; }
  Index value_at(Index t) const { return beta_at(t) * p.dv; }
  Index key_at(Index t) const {
    return ((b * p.length + t) * p.groups + h / p.group_size()) * p.dk;
  }

  // e^g of each channel. Denormal numbers, on which arithmetic is slow, become 0.
  void find_decays(Index t, Real* decays) const {
    constexpr Real kLeast = std::numeric_limits<Real>::min();
    const Index count = p.decay == Decay::of_channel ? p.dk : 1;
    const Index at = p.decay == Decay::fixed ? h : beta_at(t) * count;
    array(decays, count) = array(p.g + at, count).exp();
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
  void find_updates(Index t, const Real* dy, const Real* errors, const StateSinks& sinks) {
    const Index key = key_at(first_ + t), value = value_at(first_ + t), head = beta_at(first_ + t);
    const Real *const q = p.q + key, *const k = p.k + key, beta = rate_at(first_ + t);
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
        if constexpr (kDelta) {
          row = decays[c] * (row + q[c] * d_out + k[c] * d_read);
        } else {
          row = decays[c] * (row + q[c] * d_out);
        }
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
  void put_row_gradients(Index t, Index c, const Real* dy, const StateSinks& sinks) {
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
      Lanes<kCount> d_faded = d_after;
      if constexpr (kDelta) {
        d_faded += k * d_read[j];
        d_faded_key += d_read[j] * faded;
      }
      dq += d_out[j] * lanes<kCount>(before + p.dv * kCount);
      dk += update[j] * d_after;
      dg += d_faded * faded;
      lanes<kCount>(ds) = decay * d_faded;
    }
    if (sinks.q) put_lanes(sinks.q, key, dq);
    if (sinks.k) put_lanes(sinks.k, key, dk + d_faded_key);
    if (sinks.g && p.decay == Decay::of_channel)
      put_lanes(sinks.g, beta_at(first_ + t) * p.dk + c, dg);
    d_gates_[t] += dg.sum();
  }

  const StateProblem& p;
  Index b, h;
  Index first_ = 0, count_ = 0;  // of the tokens of the stretch that backward is in
  Real* rows_;                   // [count + 1, dv, kLanes]
  Real *updates_, *d_reads_;     // [count, dv]: U and W
  Real *decays_, *d_gates_;      // [count, dk] and [count]
  Real *ds_, *ds_rows_;          // [dk, dv]: dS, and dS by rows, [dv, kLanes] for each kLanes rows
};

// Calls body(i, head) for every head i of all sequences; in parallel over heads that share no q and
// k.
template <bool kDelta, class Body>
void for_heads(Tape& tape, const StateProblem& p, const Body& body) {
  using Head = StateHead<kDelta>;
  const Index size = (Head::memory_size(p) + kLanes - 1) / kLanes * kLanes;
  const std::int64_t macs = kMacs<kDelta> * p.length * p.group_size() * p.state_size();
  const auto run = [&](Index task, Real* memory) {
    const Index first = task % p.groups * p.group_size();
    for (Index h = first; h < first + p.group_size(); ++h)
      body(task / p.groups * p.heads + h, Head(p, task / p.groups, h, memory));
  };
  parallel_with_scratch(tape.pool(), p.batch * p.groups, macs, size, run);
}

StateProblem make_problem(Op op, const StateInputs& x, std::span<Real> state) {
  Tape& tape = tape_of(x.q);
  const Shape qs = tape.shape(x.q), ks = tape.shape(x.k), vs = tape.shape(x.v);
  const Shape gs = tape.shape(x.g);
  const auto fail_unless = [&](bool condition, std::string_view message) {
    require(condition, op, "{} (q {}, k {}, v {}, g {}, beta {})", message, qs, ks, vs, gs,
            x.beta ? tape.shape(*x.beta).text() : "none");
  };
  fail_unless(qs.rank() == 4 && vs.rank() == 4 && qs == ks, "q and k must be [B, T, G, Dk] alike");
  fail_unless(vs[0] == qs[0] && vs[1] == qs[1], "q and v must have the same sequences and tokens");
  fail_unless(qs[2] > 0 && vs[2] % qs[2] == 0, "heads must be a multiple of those of q and k");
  const Shape of_heads{vs[0], vs[1], vs[2]}, of_channels{vs[0], vs[1], vs[2], qs[3]};
  const bool fixed = gs == Shape{vs[2]};
  fail_unless((!x.beta || tape.shape(*x.beta) == of_heads) &&
                  (gs == of_heads || gs == of_channels || fixed),
              "beta must be [B, T, H] and g [B, T, H], [B, T, H, Dk] or [H]");
  fail_unless(!fixed || !tape.needs_gradient(x.g), "a fixed decay [H] is a constant");
  if (!state.empty()) {
    fail_unless(std::ssize(state) == vs[0] * vs[2] * qs[3] * vs[3], "a state is [B, H, Dk, Dv]");
    for (const Var input : x.all())
      fail_unless(!tape.needs_gradient(input),
                  "a state has no gradient; use a tape that computes none");
  }
  return {tape.value(x.q),
          tape.value(x.k),
          tape.value(x.v),
          tape.value(x.g),
          x.beta ? tape.value(*x.beta) : nullptr,
          vs[0],
          vs[1],
          qs[2],
          vs[2],
          qs[3],
          vs[3],
          fixed            ? Decay::fixed
          : gs.rank() == 4 ? Decay::of_channel
                           : Decay::of_head};
}

template <bool kDelta>
Var record(Op op, const StateInputs& x, std::span<Real> state) {
  const StateProblem p = make_problem(op, x, state);
  Tape& tape = tape_of(x.q);
  const Shape shape = tape.shape(x.v);
  const Var y = tape.record(op, shape, x.all());
  if (tape.dry(y, Count(kMacs<kDelta>) * shape.size() * p.dk)) return y;
  Real* const out = tape.value(y);
  const Index size = p.state_size(), heads = p.batch * p.heads;
  const bool trains = tape.needs_gradient(y);
  Real* const errors = trains && kDelta ? tape.scratch(shape.size()) : out;
  Real* const stored = trains ? tape.scratch(heads * p.stored_states() * size) : nullptr;
  count_macs(kMacs<kDelta> * p.length * heads * size);
  for_heads<kDelta>(tape, p, [&](Index i, StateHead<kDelta> head) {
    head.forward(out, errors, state.empty() ? nullptr : state.data() + i * size,
                 trains ? stored + i * p.stored_states() * size : nullptr);
  });
  tape.finish(y, [=](Tape& t, const Real* dy) {
    const StateSinks sinks{x.beta ? t.gradient_sink(*x.beta) : GradientSink{}, t.gradient_sink(x.v),
                           t.gradient_sink(x.q), t.gradient_sink(x.k), t.gradient_sink(x.g)};
    for_heads<kDelta>(t, p, [&](Index i, StateHead<kDelta> head) {
      head.backward(dy, kDelta ? errors : p.v, stored + i * p.stored_states() * size, sinks);
    });
  });
  return y;
}

}  // namespace

Var gated_delta_rule(Var q, Var k, Var v, Var g, Var beta, std::span<Real> state) {
  return record<true>(Op::gated_delta_rule, {q, k, v, g, beta}, state);
}

Var gated_linear_attention(Var q, Var k, Var v, Var g, std::optional<Var> beta,
                           std::span<Real> state) {
  return record<false>(Op::gated_linear_attention, {q, k, v, g, beta}, state);
}

}  // namespace headcount
