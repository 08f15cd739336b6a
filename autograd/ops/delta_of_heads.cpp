#include <algorithm>

#include "autograd/ops/delta_head.h"
#include "autograd/products.h"

namespace headcount {

namespace {

// One factor for all channels of a token: products come first, and factors scale their elements:
// D_ti = e^(G_t - G_i) those of A and P.
class DeltaOfHeads : public DeltaHead {
 public:
  DeltaOfHeads(const DeltaProblem& problem, Index batch, Index head, DeltaMemory& memory)
      : DeltaHead(problem, batch, head, memory) {
    memory.take(kChunk * kChunk, decay);
    memory.take(kChunk, sums, fade, rest, d_sums);
  }

 private:
  void find_products() override {
    gates();
    gemm(square(keys), k(), k().transpose());
    gemm(square(scores), q(), k().transpose());
    for (Index t = 0; t < n; ++t) {
      row(keys, t) *= row(decay, t);
      row(scores, t) *= row(decay, t);
      keys[t * kChunk + t] = 0;
      array(faded_q + t * p.dk, p.dk) = array(q().data + t * q().stride, p.dk) * fade[t];
    }
  }

  // sums = G, fade = e^G, rest = e^(G_n - G), decay = D.
  void gates() {
    Real sum = 0;
    for (Index t = 0; t < kChunk; ++t) {
      if (t < n) sum += p.g[p.gate_at(b, t0 + t, h)];
      sums[t] = sum;
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

  void subtract_reads(const Real* state) override {
    gemm(values(other), k(), matrix_of(state));
    for (Index t = 0; t < n; ++t) {
      ArrayMap x = array(other + t * p.dv, p.dv);
      x = array(p.v + p.value_at(b, t0 + t, h), p.dv) - x * fade[t];
    }
  }

  void update_state(Real* state) override {
    array(state, p.state_size()) *= fade[n - 1];
    for (Index t = 0; t < n; ++t)
      array(other + t * p.dv, p.dv) = array(updates + t * p.dv, p.dv) * rest[t];
    gemm(Matrix(state, p.dk, p.dv), k().transpose(), values(other), Write::add);
  }

  void read_by_writes(const Real* ds) override {
    gemm(values(d_updates), k(), matrix_of(ds));
    scale_rows(d_updates, p.dv, rest);
  }

  // other = -e^G o dE, the gradient of K S.
  void find_product_gradients() override {
    for (Index t = 0; t < n; ++t) {
      array(other + t * p.dv, p.dv) = array(d_errors + t * p.dv, p.dv) * -fade[t];
      row(m, t) *= -array(betas, n) * row(decay, t);
      m[t * kChunk + t] = 0;
      row(d_scores, t) *= row(decay, t);
    }
  }

  void find_key_gradients(const ConstMatrix& d_out, const Real* state, const Real* ds) override {
    const Matrix into_q = of_keys(dq), reads = of_keys(dk_read), writes = of_keys(dk_write);
    gemm(into_q, d_out, matrix_of(state).transpose());
    scale_rows(dq, p.dk, fade);
    gemm(into_q, square(d_scores), k(), Write::add);
    gemm(reads, values(other), matrix_of(state).transpose());
    gemm(reads, square(m), k(), Write::add);
    gemm(writes, values(updates), matrix_of(ds).transpose());
    scale_rows(dk_write, p.dk, rest);
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

  void add_to_last_gate(const Real* ds, const Real* next) override {
    d_sums[n - 1] += (array(ds, p.state_size()) * array(next, p.state_size())).sum();
  }

  void find_state_gradient(const ConstMatrix& d_out, Real* ds) override {
    array(ds, p.state_size()) *= fade[n - 1];
    const Matrix into(ds, p.dk, p.dv);
    gemm(into, transpose(of_keys(faded_q)), d_out, Write::add);
    gemm(into, k().transpose(), values(other), Write::add);
  }

  void put_gate_gradients(const GradientSink& g) override {
    Real dg = 0;
    for (Index t = n - 1; t >= 0; --t) {
      dg += d_sums[t];
      g.put(p.gate_at(b, t0 + t, h), dg);
    }
  }

  void scale_rows(Real* rows, Index width, const Real* by) const {
    for (Index i = 0; i < n; ++i) array(rows + i * width, width) *= by[i];
  }

  Real* decay;                        // [kChunk, kChunk]
  Real *sums, *fade, *rest, *d_sums;  // [kChunk]
};

}  // namespace

std::unique_ptr<DeltaHead> delta_of_heads(const DeltaProblem& problem, Index batch, Index head,
                                          DeltaMemory& memory) {
  return std::make_unique<DeltaOfHeads>(problem, batch, head, memory);
}

}  // namespace headcount
