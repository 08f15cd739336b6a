#include <algorithm>
#include <array>
#include <limits>

#include "autograd/ops/delta_head.h"
#include "autograd/products.h"

namespace headcount {

namespace {

constexpr Index kBlock = 8;

// Sets numbers below the smallest normal one to 0: arithmetic on them is slow.
template <class Factors>
auto no_denormals(const Factors& x) {
  constexpr Real kLeast = std::numeric_limits<Real>::min();
  return (x < kLeast).select(Real{0}, x);
}

// One factor for each channel of a token: terms of A and P have factors of their own, and products
// are those of rows that were scaled before. e^(G_t) and e^(-G_i) apart overflow, so that pairs of
// tokens meet in halves of ever smaller blocks: between the halves lies a token r with i < r <= t,
// and both e^(G_t - G_r) and e^(G_r - G_i) are at most 1. Pairs within a block of 8 are computed
// one by one. All factors are products of e^g, never e^ of sums.
class DeltaOfChannels : public DeltaHead {
 public:
  DeltaOfChannels(const DeltaProblem& problem, Index batch, Index head, DeltaMemory& memory)
      : DeltaHead(problem, batch, head, memory) {
    const Index size = kChunk * p.dk;
    memory.take(size, decays, fade, rest, faded_k, rest_k, d_sums, near_dq, near_reads,
                near_writes);
    for (Level& level : levels) memory.take(size, level.factors, level.q, level.k);
    memory.take(p.dk, running);
  }

 private:
  // Blocks of 2 `half` tokens, of which the later half reads the earlier one.
  struct Level {
    Index half;
    Real *factors, *q, *k;  // [n, dk]: from and to the border between the halves; q and k scaled
  };

  Real* at(Real* rows, Index t) const { return rows + t * p.dk; }
  ArrayMap channels(Real* rows, Index t) const { return array(at(rows, t), p.dk); }
  const Real* q_of(Index t) const { return p.q + p.key_at(b, t0 + t, h); }
  const Real* k_of(Index t) const { return p.k + p.key_at(b, t0 + t, h); }

  void find_products() override {
    find_factors();
    std::fill_n(keys, n * kChunk, Real{0});
    std::fill_n(scores, n * kChunk, Real{0});
    for (Level& level : levels) {
      scale_level(level);
      for_halves(level.half, [&](Index begin, Index middle, Index end) {
        const ConstMatrix earlier = transpose(rows(level.k, begin, middle));
        gemm(part(keys, begin, middle, end), rows(level.k, middle, end), earlier);
        gemm(part(scores, begin, middle, end), rows(level.q, middle, end), earlier);
      });
    }
    for_near_pairs([&](Index i, Index t, const Real* faded_key) {
      LaneSum of_key, of_query;
      for_lanes(p.dk, [&]<int kCount>(Index c) {
        of_key.add(lanes<kCount>(k_of(t) + c) * lanes<kCount>(faded_key + c));
        of_query.add(lanes<kCount>(q_of(t) + c) * lanes<kCount>(faded_key + c));
      });
      if (t > i) keys[t * kChunk + i] = of_key.total();
      scores[t * kChunk + i] = of_query.total();
    });
    const Index last = n % kBlock;  // tokens of a block that is not full
    count_macs(((n - last) * kBlock + last * last) * p.dk);
  }

  // decays = e^g, fade = e^G, rest = e^(G_n - G), and q and k scaled by them.
  void find_factors() {
    for (Index t = 0; t < n; ++t) {
      channels(decays, t) = array(p.g + p.gate_at(b, t0 + t, h), p.dk).exp();
      if (t == 0) {
        channels(fade, t) = channels(decays, t);
      } else {
        channels(fade, t) = no_denormals(channels(fade, t - 1) * channels(decays, t));
      }
    }
    channels(rest, n - 1).setOnes();
    for (Index t = n - 2; t >= 0; --t)
      channels(rest, t) = no_denormals(channels(rest, t + 1) * channels(decays, t + 1));
    for (Index t = 0; t < n; ++t) {
      channels(faded_q, t) = array(q_of(t), p.dk) * channels(fade, t);
      channels(faded_k, t) = array(k_of(t), p.dk) * channels(fade, t);
      channels(rest_k, t) = array(k_of(t), p.dk) * channels(rest, t);
    }
  }

  // Calls body(begin, middle, end) for the blocks whose later half has tokens.
  template <class Body>
  void for_halves(Index half, const Body& body) const {
    for (Index begin = 0; begin + half < n; begin += 2 * half)
      body(begin, begin + half, std::min(n, begin + 2 * half));
  }

  void scale_level(Level& level) {
    for_halves(level.half, [&](Index begin, Index middle, Index end) {
      for (Index t = middle; t < end; ++t) {
        if (t == middle) {
          channels(level.factors, t) = channels(decays, t);
        } else {
          channels(level.factors, t) =
              no_denormals(channels(level.factors, t - 1) * channels(decays, t));
        }
        channels(level.q, t) = array(q_of(t), p.dk) * channels(level.factors, t);
      }
      channels(level.factors, middle - 1).setOnes();
      for (Index t = middle - 2; t >= begin; --t)
        channels(level.factors, t) =
            no_denormals(channels(level.factors, t + 1) * channels(decays, t + 1));
      for (Index t = begin; t < end; ++t)
        channels(level.k, t) = array(k_of(t), p.dk) * channels(level.factors, t);
    });
  }

  Matrix rows(Real* numbers, Index begin, Index end) const {
    return {at(numbers, begin), end - begin, p.dk};
  }
  // Rows of the later half and columns of the earlier one.
  static Matrix part(Real* square, Index begin, Index middle, Index end) {
    return {square + middle * kChunk + begin, end - middle, middle - begin, kChunk};
  }

  // Calls body(i, t, k_i with the factors up to t) for each pair i <= t of a block.
  template <class Body>
  void for_near_pairs(const Body& body) {
    for (Index i = 0; i < n; ++i) {
      std::copy_n(k_of(i), p.dk, running);
      for (Index t = i; t < block_end(i); ++t) {
        if (t > i) array(running, p.dk) *= channels(decays, t);
        body(i, t, running);
      }
    }
  }
  Index block_end(Index t) const { return std::min(n, (t / kBlock + 1) * kBlock); }

  void subtract_reads(const Real* state) override {
    gemm(values(other), of_keys(faded_k), matrix_of(state));
    for (Index t = 0; t < n; ++t) {
      ArrayMap x = array(other + t * p.dv, p.dv);
      x = array(p.v + p.value_at(b, t0 + t, h), p.dv) - x;
    }
  }

  void fade_state(Real* state) const {
    for (Index c = 0; c < p.dk; ++c) array(state + c * p.dv, p.dv) *= at(fade, n - 1)[c];
  }

  void update_state(Real* state) override {
    fade_state(state);
    gemm(Matrix(state, p.dk, p.dv), transpose(of_keys(rest_k)), values(updates), Write::add);
  }

  void read_by_writes(const Real* ds) override {
    gemm(values(d_updates), of_keys(rest_k), matrix_of(ds));
  }

  void find_product_gradients() override {
    for (Index t = 0; t < n; ++t) {
      array(other + t * p.dv, p.dv) = -array(d_errors + t * p.dv, p.dv);
      Real* const d_keys = m + t * kChunk;
      array(d_keys, t) *= -array(betas, t);
      std::fill(d_keys + t, d_keys + n, Real{0});
      std::fill(d_scores + t * kChunk + t + 1, d_scores + t * kChunk + n, Real{0});
    }
  }

  void find_key_gradients(const ConstMatrix& d_out, const Real* state, const Real* ds) override {
    gemm(of_keys(dq), d_out, matrix_of(state).transpose());
    gemm(of_keys(dk_read), values(other), matrix_of(state).transpose());
    gemm(of_keys(dk_write), values(updates), matrix_of(ds).transpose());
    for (Index t = 0; t < n; ++t) {
      channels(dq, t) *= channels(fade, t);
      channels(dk_read, t) *= channels(fade, t);
      channels(dk_write, t) *= channels(rest, t);
    }
    for (const Level& level : levels) add_between_halves(level);
    add_near_pairs();
    for (Index t = 0; t < n; ++t)
      channels(d_sums, t) = array(q_of(t), p.dk) * channels(dq, t) +
                            array(k_of(t), p.dk) * (channels(dk_read, t) - channels(dk_write, t));
  }

  void add_between_halves(const Level& level) {
    for_halves(level.half, [&](Index begin, Index middle, Index end) {
      const ConstMatrix d_keys = part(m, begin, middle, end);
      const ConstMatrix d_products = part(d_scores, begin, middle, end);
      const Matrix earlier_k = rows(level.k, begin, middle);
      const Matrix writes = rows(near_writes, begin, middle);
      gemm(rows(near_dq, middle, end), d_products, earlier_k);
      gemm(rows(near_reads, middle, end), d_keys, earlier_k);
      gemm(writes, d_keys.transpose(), rows(level.k, middle, end));
      gemm(writes, d_products.transpose(), rows(level.q, middle, end), Write::add);
      for (Index t = middle; t < end; ++t) {
        channels(dq, t) += channels(near_dq, t) * channels(level.factors, t);
        channels(dk_read, t) += channels(near_reads, t) * channels(level.factors, t);
      }
      for (Index t = begin; t < middle; ++t)
        channels(dk_write, t) += channels(near_writes, t) * channels(level.factors, t);
    });
  }

  // Pairs within blocks, from the later to the earlier token and back.
  void add_near_pairs() {
    for_near_pairs([&](Index i, Index t, const Real* faded_key) {
      const ConstArrayMap key = array(faded_key, p.dk);
      channels(dq, t) += d_scores[t * kChunk + i] * key;
      if (t > i) channels(dk_read, t) += m[t * kChunk + i] * key;
    });
    for (Index i = 0; i < n; ++i) {
      ArrayMap of_later = array(running, p.dk);
      of_later.setZero();
      for (Index t = block_end(i) - 1; t >= i; --t) {
        const Index pair = t * kChunk + i;
        of_later += d_scores[pair] * array(q_of(t), p.dk);
        if (t == i) break;
        of_later = (of_later + m[pair] * array(k_of(t), p.dk)) * channels(decays, t);
      }
      channels(dk_write, i) += of_later;
    }
  }

  void add_to_last_gate(const Real* ds, const Real* next) override {
    for (Index c = 0; c < p.dk; ++c)
      at(d_sums, n - 1)[c] += (array(ds + c * p.dv, p.dv) * array(next + c * p.dv, p.dv)).sum();
  }

  void find_state_gradient(const ConstMatrix& d_out, Real* ds) override {
    fade_state(ds);
    const Matrix into(ds, p.dk, p.dv);
    gemm(into, transpose(of_keys(faded_q)), d_out, Write::add);
    gemm(into, transpose(of_keys(faded_k)), values(other), Write::add);
  }

  void put_gate_gradients(const GradientSink& g) override {
    for (Index t = n - 1; t >= 0; --t) {
      if (t + 1 < n) channels(d_sums, t) += channels(d_sums, t + 1);
      put(g, p.gate_at(b, t0 + t, h), channels(d_sums, t));
    }
  }

  std::array<Level, 3> levels{{{8, {}, {}, {}}, {16, {}, {}, {}}, {32, {}, {}, {}}}};
  static_assert(kChunk == 64 && kBlock == 8, "the levels are those of such chunks");
  Real *decays, *fade, *rest, *faded_k, *rest_k, *d_sums;  // [n, dk]
  Real *near_dq, *near_reads, *near_writes;                // [n, dk]: parts of gradients
  Real* running;                                           // [dk]
};

}  // namespace

std::unique_ptr<DeltaHead> delta_of_channels(const DeltaProblem& problem, Index batch, Index head,
                                             DeltaMemory& memory) {
  return std::make_unique<DeltaOfChannels>(problem, batch, head, memory);
}

}  // namespace headcount
