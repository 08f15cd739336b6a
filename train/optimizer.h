#pragma once

#include "autograd/parameters.h"

namespace headcount {

/// AdamW: Adam with decoupled weight decay, on matrices only. Loshchilov and Hutter (2019).
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0.1;

  /// One update with the gradients of `parameters` times `gradient_scale`; `step` counts from 1.
  ///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
  ///   x = (1 - rate decay) x - rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) +
  ///   epsilon)
  void update(ParameterStore& parameters, double learning_rate, double gradient_scale,
              Index step) const;
};

/// Adds the gradients of `shards`, in their order, to those of the store, and returns the Euclidean
/// norm of all sums together, itself summed in double over fixed chunks.
double sum_gradients(ParameterStore& parameters, std::span<Gradients> shards = {});

/// What gradients of norm `norm` are multiplied by so that it does not exceed `limit`; 1 if `limit`
/// is 0. As torch.nn.utils.clip_grad_norm_.
double clip_scale(double norm, double limit);

/// Learning rate over a run: linear warm-up to `peak`, then half a cosine down to `least`, which
/// the step after the last would have. As in nanoGPT.
struct Schedule {
  double peak = 1e-3;
  double least = 1e-4;
  Index warmup = 100;
  Index steps = 1000;

  double at(Index step) const;  ///< `step` counts from 0
};

}  // namespace headcount
