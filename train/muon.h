#pragma once

#include "train/adamw.h"

namespace headcount {

struct MuonSettings {
  double learning_rate = 0.02;  ///< peak; its schedule is that of AdamW's learning rate
  double momentum = 0.95;       ///< fixed: there is no setting
  double weight_decay = 0.01;   ///< of the orthogonalised matrices

  void visit(const auto& setting) {
    setting(learning_rate, {"muon-lr", "peak learning rate of the weight matrices that Muon trains",
                            NumberRange{0, 100}, learning_rate});
    setting(weight_decay,
            {"muon-weight-decay", "decoupled weight decay of the weight matrices that Muon trains",
             NumberRange{0, 100}, weight_decay});
  }
};

/// Muon (Jordan et al. 2024; torch.optim.Muon): momentum whose update of a matrix W [rows, cols] is
/// orthogonalised, so that all directions of the matrix learn at the same pace.
///   M = momentum M + (1 - momentum) G
///   U = (1 - momentum) G + momentum M                                  (Nesterov)
///   W = (1 - rate decay) W - rate sqrt(max(1, rows / cols)) orthogonal(U)
/// It trains the matrices that map features to features. Tables with a row per token or position
/// (embeddings, learned positions, the head), norms, biases, vectors and convolutions are trained
/// by AdamW.
class Muon : public AdamW {
 public:
  Muon(const MuonSettings& settings, const AdamWSettings& others, const ParameterStore& parameters);
  void update(ParameterStore& parameters, const Update& at) override;

 private:
  struct Scratch {
    std::vector<Real> update, orthogonalization;
  };

  MuonSettings settings_;
  std::vector<ParameterId> matrices_;  // the most expensive first, so that threads end together
  std::vector<Scratch> scratch_;       // by thread; kept, so that later steps allocate nothing
};

/// Orthogonalises the row-major matrix `x` [rows, cols] approximately: replaces its singular values
/// by values between about 0.7 and 1.2, with five Newton-Schulz steps X = a X + (b A + c A A) X
/// with A = X X^T, on X scaled to norm 1 and transposed if rows > cols. Source: Jordan et al.
/// (2024). Where one side is longer than about 1.5 times the other, only A is iterated, and X is
/// multiplied once, at the end. Runs on the calling thread. The result lies in `scratch`, which
/// grows to fit; `x` is overwritten.
std::span<const Real> orthogonalize(std::span<Real> x, Index rows, Index cols,
                                    std::vector<Real>& scratch);

}  // namespace headcount
