#include "autograd/ops/delta_head.h"

#include <algorithm>

#include "autograd/products.h"

namespace headcount {

static_assert(kDeltaChunk % kLanes == 0);

DeltaHead::DeltaHead(const DeltaProblem& problem, Index batch, Index head, DeltaMemory& memory)
    : p(problem), b(batch), h(head) {
  memory.take(kChunk * kChunk, keys, inverse, scores, m, d_scores);
  memory.take(kChunk, betas, factors, d_betas);
  memory.take(kChunk * p.dv, errors, updates, d_updates, d_errors, other);
  memory.take(kChunk * p.dk, faded_q, dq, dk_read, dk_write);
  memory.take(p.state_size(), spare_state);
}

void DeltaHead::forward(Real* y, Real* state, Real* states) {
  Real* const s = state == nullptr ? spare_state : state;
  if (state == nullptr) std::fill_n(s, p.state_size(), Real{0});
  for (Index first = 0; first < p.length; first += kChunk) {
    if (states != nullptr) std::copy_n(s, p.state_size(), states + first / kChunk * p.state_size());
    enter(first, s);
    const Matrix out(y + p.value_at(b, t0, h), n, p.dv, p.heads * p.dv);
    gemm(out, of_keys(faded_q), matrix_of(s));
    gemm(out, square(scores), values(updates), Write::add);
    update_state(s);
  }
}

void DeltaHead::backward(const Real* dy, const Real* states, const DeltaSinks& sinks,
                         bool first_of_group) {
  Real* const ds = spare_state;
  std::fill_n(ds, p.state_size(), Real{0});
  for (Index chunk = p.chunks() - 1; chunk >= 0; --chunk) {
    const Real* const state = states + chunk * p.state_size();
    enter(chunk * kChunk, state);
    const ConstMatrix d_out(dy + p.value_at(b, t0, h), n, p.dv, p.heads * p.dv);
    find_update_gradients(d_out, ds);
    find_key_gradients(d_out, state, ds);
    if (chunk + 1 < p.chunks()) add_to_last_gate(ds, state + p.state_size());
    find_state_gradient(d_out, ds);
    put_gradients(sinks, first_of_group);
  }
}

// Computes everything in the chunk that begins with token `first` from the state before it.
void DeltaHead::enter(Index first, const Real* state) {
  t0 = first;
  n = std::min(kChunk, p.length - t0);
  for (Index t = 0; t < kChunk; ++t) betas[t] = t < n ? p.beta[p.beta_at(b, t0 + t, h)] : 0;
  find_products();
  invert();
  subtract_reads(state);
  gemm(values(errors), square(inverse), values(other));
  for (Index t = 0; t < n; ++t)
    array(updates + t * p.dv, p.dv) = array(errors + t * p.dv, p.dv) * betas[t];
}

// Row t of N is e_t - sum over i < t of A_ti b_i N_i.
void DeltaHead::invert() {
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

// d_updates = dU, d_errors = dE, d_betas = db, m = dA, d_scores = dP.
void DeltaHead::find_update_gradients(const ConstMatrix& d_out, const Real* ds) {
  read_by_writes(ds);
  gemm(values(d_updates), transpose(square(scores)), d_out, Write::add);
  for (Index t = 0; t < n; ++t)
    array(other + t * p.dv, p.dv) = array(d_updates + t * p.dv, p.dv) * betas[t];
  gemm(values(d_errors), transpose(square(inverse)), values(other));
  gemm(square(m), values(d_errors), transpose(values(errors)));
  gemm(square(d_scores), d_out, transpose(values(updates)));
  for (Index t = 0; t < n; ++t)
    d_betas[t] = (array(errors + t * p.dv, p.dv) * array(d_updates + t * p.dv, p.dv)).sum();
  for (Index t = 0; t < n; ++t) array(d_betas, n) -= row(keys, t) * row(m, t);
  find_product_gradients();
}

void DeltaHead::put_gradients(const DeltaSinks& sinks, bool first_of_group) {
  const auto shared = [&](const GradientSink& sink) {
    return GradientSink{sink.data, first_of_group ? sink.write : Write::add};
  };
  for (Index t = n - 1; t >= 0; --t) {
    const Index key = p.key_at(b, t0 + t, h);
    if (sinks.q) put(shared(sinks.q), key, array(dq + t * p.dk, p.dk));
    if (sinks.k)
      put(shared(sinks.k), key, array(dk_read + t * p.dk, p.dk) + array(dk_write + t * p.dk, p.dk));
    if (sinks.v) put(sinks.v, p.value_at(b, t0 + t, h), array(d_errors + t * p.dv, p.dv));
    if (sinks.beta) sinks.beta.put(p.beta_at(b, t0 + t, h), d_betas[t]);
  }
  if (sinks.g) put_gate_gradients(sinks.g);
}

}  // namespace headcount
