#include "train/optimizer.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "autograd/parallel.h"

namespace headcount {

void AdamW::update(ParameterStore& parameters, double learning_rate, double gradient_scale,
                   Index step) const {
  const auto n = static_cast<double>(step);
  const auto b1 = static_cast<Real>(beta1), b2 = static_cast<Real>(beta2);
  const auto one_b1 = static_cast<Real>(1 - beta1), one_b2 = static_cast<Real>(1 - beta2);
  const auto rate = static_cast<Real>(learning_rate / (1 - std::pow(beta1, n)));
  const auto inverse_root = static_cast<Real>(1 / std::sqrt(1 - std::pow(beta2, n)));
  const auto tiny = static_cast<Real>(epsilon), factor = static_cast<Real>(gradient_scale);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterId id{i};
    const auto keep =
        static_cast<Real>(parameters.decays(id) ? 1 - learning_rate * weight_decay : 1);
    Real* const x = parameters.value(id).data();
    Real* const m = parameters.first_moment(id).data();
    Real* const v = parameters.second_moment(id).data();
    const Real* const gradient = parameters.gradient(id).data();
    parallel_chunks(parameters.shape(id).size(), kElementChunk, [=](Index begin, Index end) {
      for (Index j = begin; j < end; ++j) {
        const Real g = gradient[j] * factor;
        m[j] = b1 * m[j] + one_b1 * g;
        v[j] = b2 * v[j] + one_b2 * g * g;
        x[j] = keep * x[j] - rate * m[j] / (std::sqrt(v[j]) * inverse_root + tiny);
      }
    });
  }
}

double gradient_norm(ParameterStore& parameters) {
  const std::span<const Real> gradients = parameters.all_gradients();
  const auto count = static_cast<Index>(gradients.size());
  std::vector<double> parts(static_cast<std::size_t>((count + kElementChunk - 1) / kElementChunk));
  parallel_chunks(count, kElementChunk, [&](Index begin, Index end) {
    constexpr Index kLanes = 16;  // independent sums, which the compiler vectorises
    double lanes[kLanes] = {};
    const Real* const g = gradients.data();
    Index i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (Index lane = 0; lane < kLanes; ++lane) {
        const auto x = static_cast<double>(g[i + lane]);
        lanes[lane] += x * x;
      }
    }
    for (; i < end; ++i) lanes[0] += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    parts[static_cast<std::size_t>(begin / kElementChunk)] =
        std::accumulate(lanes, lanes + kLanes, 0.0);
  });
  double total = 0;
  for (const double part : parts) total += part;
  return std::sqrt(total);
}

double clip_scale(double norm, double limit) {
  if (limit == 0) return 1;
  return std::min(1.0, limit / (norm + 1e-6));
}

double Schedule::at(Index step) const {
  if (step < warmup) return peak * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  const Index span = std::max<Index>(1, steps - warmup);
  const double progress =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(span));
  return least + 0.5 * (1 + std::cos(std::numbers::pi * progress)) * (peak - least);
}

}  // namespace headcount
