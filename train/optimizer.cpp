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
  const auto decayed = static_cast<Real>(1 - learning_rate * weight_decay);
  Real* const x = parameters.all_values().data();
  Real* const m = parameters.all_first_moments().data();
  Real* const v = parameters.all_second_moments().data();
  const std::span<const Real> gradients = parameters.complete_gradients();
  const Real* const gradient = gradients.data();
  parallel_chunks(std::ssize(gradients), kElementChunk, [=, &parameters](Index begin, Index end) {
    parameters.for_slices(begin, end, [=, &parameters](ParameterId id, Index first, Index last) {
      const Real keep = parameters.decays(id) ? decayed : Real{1};
      for (Index i = first; i < last; ++i) {
        const Real g = gradient[i] * factor;
        m[i] = b1 * m[i] + one_b1 * g;
        v[i] = b2 * v[i] + one_b2 * g * g;
        x[i] = keep * x[i] - rate * m[i] / (std::sqrt(v[i]) * inverse_root + tiny);
      }
    });
  });
}

namespace {

double sum_of_squares(std::span<const Real> numbers) {
  constexpr std::size_t kLanes = 16;  // independent sums, which the compiler vectorises
  double lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= numbers.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto x = static_cast<double>(numbers[i + lane]);
      lanes[lane] += x * x;
    }
  }
  for (; i < numbers.size(); ++i)
    lanes[0] += static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]);
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

}  // namespace

double sum_gradients(ParameterStore& parameters, std::span<Gradients> shards) {
  const std::span<Real> sums = parameters.complete_gradients();
  std::vector<const Real*> parts;
  for (Gradients& shard : shards) parts.push_back(parameters.complete_gradients(shard).data());
  const Index count = std::ssize(sums);
  std::vector<double> squares(
      static_cast<std::size_t>((count + kElementChunk - 1) / kElementChunk));
  parallel_chunks(count, kElementChunk, [&](Index begin, Index end) {
    Real* const sum = sums.data();
    for (const Real* const part : parts) {
      for (Index i = begin; i < end; ++i) sum[i] += part[i];
    }
    squares[static_cast<std::size_t>(begin / kElementChunk)] = sum_of_squares(
        sums.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
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
