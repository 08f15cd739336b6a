#pragma once

#include <memory>

#include "autograd/ops.h"
#include "autograd/ops/support.h"

/// The computation of `gated_delta_rule`, a head at a time. Not part of the public interface.
namespace headcount {

struct DeltaProblem {
  const Real *q, *k, *v, *g, *beta;
  Index batch, length, groups, heads, dk, dv;
  bool by_channel;  // g has a number for each channel of k, not for each head alone

  Index chunks() const { return (length + kDeltaChunk - 1) / kDeltaChunk; }
  Index state_size() const { return dk * dv; }
  Index group_size() const { return heads / groups; }
  Index key_group(Index head) const { return head / group_size(); }
  // Offsets of token t of head h in q and k, in v and y, in beta, and in g.
  Index key_at(Index b, Index t, Index h) const {
    return ((b * length + t) * groups + key_group(h)) * dk;
  }
  Index value_at(Index b, Index t, Index h) const { return beta_at(b, t, h) * dv; }
  Index beta_at(Index b, Index t, Index h) const { return (b * length + t) * heads + h; }
  Index gate_at(Index b, Index t, Index h) const {
    return beta_at(b, t, h) * (by_channel ? dk : 1);
  }
};

struct DeltaSinks {
  GradientSink q, k, v, g, beta;
};

/// Memory of a head, cut into parts that start aligned. Null: parts are counted only.
class DeltaMemory {
 public:
  explicit DeltaMemory(Real* memory) : memory_(memory) {}
  template <class... Parts>
  void take(Index count, Parts*&... parts) {
    for (Real** part : {&parts...}) {
      *part = memory_ == nullptr ? nullptr : memory_ + taken_;
      constexpr Index kAligned = kAlignment / sizeof(Real);
      taken_ += (count + kAligned - 1) / kAligned * kAligned;
    }
  }
  Index taken() const { return taken_; }

 private:
  Real* memory_;
  Index taken_ = 0;
};

/// One head of one sequence, chunk by chunk. In a chunk of n tokens that begins with the state S,
/// let
///     G be the sums of g up to each token,
///     A = K K^T and P = Q K^T, of which each term of tokens t and i has a factor e^(G_t - G_i); A
///     below the diagonal, P on it and below, 0 elsewhere; and b the betas.
/// The errors E that the tokens correct solve a triangular system:
///     E = N (V - (e^G o K) S),  N = (I + A diag(b))^-1,  U = b o E
///     Y = (e^G o Q) S + P U;  S' = e^(G_n) o S + (e^(G_n - G) o K)^T U
/// Backward, with dS' the gradient of the state after the chunk:
///     dU = P^T dY + (e^(G_n - G) o K) dS',  dE = N^T (b o dU) = dV,  M = dE E^T
///     db = rowsum(E o dU) - colsum(A o M),  dA = -M diag(b),  dP = dY U^T
///     dS = e^(G_n) o dS' + (e^G o Q)^T dY - (e^G o K)^T dE
/// Each key reads (in row t of A, and in K S) and writes (in column i of A and P, and into S'):
///     dQ = e^G o (dY S^T) + dP K,  dK_read = -e^G o (dE S^T) + dA K
///     dK_write = dA^T K + dP^T Q + e^(G_n - G) o (U dS'^T)
/// with the factors of A and P in the products with dA and dP. Terms of q_t and of a reading k_t
/// have a factor e^(G_t), terms of a writing k_i one of e^(-G_i):
///     dG = Q o dQ + K o (dK_read - dK_write), and dS' o S' more for the last token,
/// summed over the channels that share a g. How the factors enter the products is what the two
/// derived classes differ in.
class DeltaHead {
 public:
  virtual ~DeltaHead() = default;

  /// Computes the outputs; `state` becomes the state after the last token. The state before each
  /// chunk is stored in `states`, unless that is null. Without `state`, the first state is zero.
  void forward(Real* y, Real* state, Real* states);
  /// `first_of_group`: no head has written to the gradients of its q and k yet.
  void backward(const Real* dy, const Real* states, const DeltaSinks& sinks, bool first_of_group);

 protected:
  static constexpr Index kChunk = kDeltaChunk;

  DeltaHead(const DeltaProblem& problem, Index batch, Index head, DeltaMemory& memory);

  /// From the gates of the chunk: keys = A, scores = P, faded_q = e^G o Q.
  virtual void find_products() = 0;
  /// other = V - (e^G o K) S.
  virtual void subtract_reads(const Real* state) = 0;
  /// S becomes S'; may overwrite `other`.
  virtual void update_state(Real* state) = 0;
  /// d_updates = (e^(G_n - G) o K) dS'.
  virtual void read_by_writes(const Real* ds) = 0;
  /// m = M becomes dA, and d_scores dP, in which upper triangles are 0; other = -dE.
  virtual void find_product_gradients() = 0;
  /// dq, dk_read, dk_write, and dG but for its term dS' o S', which `add_to_last_gate` adds.
  virtual void find_key_gradients(const ConstMatrix& d_out, const Real* state, const Real* ds) = 0;
  /// Adds dS' o S' to dG.
  virtual void add_to_last_gate(const Real* ds, const Real* next) = 0;
  /// dS' becomes dS.
  virtual void find_state_gradient(const ConstMatrix& d_out, Real* ds) = 0;
  /// Writes the gradient of g: g_i is a term of G_t for all t >= i.
  virtual void put_gate_gradients(const GradientSink& g) = 0;

  ConstMatrix q() const { return {p.q + p.key_at(b, t0, h), n, p.dk, p.groups * p.dk}; }
  ConstMatrix k() const { return {p.k + p.key_at(b, t0, h), n, p.dk, p.groups * p.dk}; }
  Matrix square(Real* numbers) const { return {numbers, n, n, kChunk}; }
  Matrix values(Real* numbers) const { return {numbers, n, p.dv}; }
  Matrix of_keys(Real* numbers) const { return {numbers, n, p.dk}; }
  ConstMatrix matrix_of(const Real* state) const { return {state, p.dk, p.dv}; }
  ArrayMap row(Real* of_square, Index t) const { return array(of_square + t * kChunk, n); }

  const DeltaProblem& p;
  Index b, h;
  Index t0 = 0, n = 0;                                    // first token and length of the chunk
  Real *keys, *inverse, *scores, *m, *d_scores;           // [kChunk, kChunk]
  Real *betas, *factors, *d_betas;                        // [kChunk]
  Real *errors, *updates, *d_updates, *d_errors, *other;  // [n, dv]
  Real *faded_q, *dq, *dk_read, *dk_write;                // [n, dk]
  Real* spare_state;                                      // [dk, dv]

 private:
  void enter(Index first, const Real* state);
  void invert();
  void find_update_gradients(const ConstMatrix& d_out, const Real* ds);
  void put_gradients(const DeltaSinks& sinks, bool first_of_group);
};

/// A head with g for each head, or for each channel of k.
std::unique_ptr<DeltaHead> delta_of_heads(const DeltaProblem& problem, Index batch, Index head,
                                          DeltaMemory& memory);
std::unique_ptr<DeltaHead> delta_of_channels(const DeltaProblem& problem, Index batch, Index head,
                                             DeltaMemory& memory);

}  // namespace headcount
