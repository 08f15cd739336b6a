#pragma once

#include <functional>

#include "train/optimizer.h"

namespace headcount {

struct AdamWSettings {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.1;
  double epsilon = 1e-8;  ///< fixed: there is no setting

  void visit(const auto& setting) {
    setting(beta1, {"beta1", "AdamW's decay rate of the mean of gradients", kFraction, beta1});
    setting(beta2,
            {"beta2", "AdamW's decay rate of the mean of squared gradients", kFraction, beta2});
    setting(weight_decay, {"weight-decay", "AdamW's decoupled weight decay, of matrices only",
                           NumberRange{0, 100}, weight_decay});
  }
};

/// AdamW: Adam with decoupled weight decay, on matrices only. Loshchilov and Hutter (2019).
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///   x = (1 - rate decay) x
///       - rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon)
class AdamW : public Optimizer {
 public:
  AdamW(const AdamWSettings& settings, const ParameterStore& parameters);
  void update(ParameterStore& parameters, const Update& at) override;

 protected:
  /// Updates the parameters that `trains` accepts.
  void update(ParameterStore& parameters, const Update& at,
              const std::function<bool(ParameterId)>& trains);

 private:
  AdamWSettings settings_;
};

extern const OptimizerKind kAdamW;

}  // namespace headcount
