#include "train/repeated_intervals.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace headcount {

namespace {

// n normal values of mean zero are a vector in a uniformly random direction of n-space, at an angle
// to the diagonal (1, ..., 1) whose cotangent is t / sqrt(n - 1) and whose density goes as
// sin^(n-2). Here, functions of that angle from 0 to a right one; they are even about it.
class Angles {
 public:
  double operator[](std::size_t i) const { return static_cast<double>(i) * kStep; }

  // Value at `angle`, interpolated linearly between `values` at the grid's angles.
  static double between(const std::vector<double>& values, double angle) {
    const double place = std::min(angle / kStep, static_cast<double>(kSteps));
    const auto i = std::min(static_cast<std::size_t>(place), kSteps - 1);
    const double share = place - static_cast<double>(i);
    return (1 - share) * values[i] + share * values[i + 1];
  }

  std::vector<double> density(Index n) const {
    std::vector<double> values(kSteps + 1);
    double sum = 0;
    for (std::size_t i = 0; i <= kSteps; ++i) {
      values[i] = std::pow(std::sin((*this)[i]), n - 2);
      sum += i == 0 || i == kSteps ? values[i] / 2 : values[i];
    }
    for (double& value : values) value /= sum * kStep;
    return values;
  }

  // `inside` tells, by the angle of the first n - 1 values, the chance that no look before theirs
  // has failed; theirs has at an angle below `least`. Returned is the chance, by the angle of n
  // values, that none of all these has: given that angle, the direction is still random about the
  // diagonal, which says what share of its length the last value has.
  std::vector<double> with_one_more(const std::vector<double>& inside, double least,
                                    Index n) const {
    constexpr int kTurns = 256;
    const double root = std::sqrt(static_cast<double>(n));
    const double rest = std::sqrt(static_cast<double>(n - 1));
    std::vector<double> result(kSteps + 1), cosines(kTurns), weights(kTurns);
    double sum = 0;
    for (std::size_t k = 0; k < kTurns; ++k) {
      const double turn = (static_cast<double>(k) + 0.5) * std::numbers::pi / kTurns;
      cosines[k] = std::cos(turn);
      sum += weights[k] = std::pow(std::sin(turn), n - 3);
    }
    for (std::size_t i = 0; i <= kSteps; ++i) {
      const double along = std::cos((*this)[i]), across = std::sin((*this)[i]);
      for (std::size_t k = 0; k < kTurns; ++k) {
        const double last = along / root + across * rest / root * cosines[k];
        const double before = std::abs(root * along - last) / (rest * std::sqrt(1 - last * last));
        const double angle = std::acos(std::min(before, 1.0));
        if (angle >= least) result[i] += weights[k] / sum * between(inside, angle);
      }
    }
    return result;
  }

  static constexpr std::size_t kSteps = 512;
  static constexpr double kStep = std::numbers::pi / 2 / kSteps;
};

}  // namespace

RepeatedIntervals::RepeatedIntervals(Index first, Index last) : first_(first) {
  const Angles angles;
  const auto spent = [&](Index n) {
    return kOutsideInterval * std::sqrt(static_cast<double>(n) / static_cast<double>(last));
  };
  bounds_.push_back(student_t(first - 1, spent(first)));
  std::vector<double> inside(Angles::kSteps + 1, 1);
  for (Index n = first; n < last; ++n) {
    const double least = std::atan(std::sqrt(static_cast<double>(n - 1)) / bounds_.back());
    inside = angles.with_one_more(inside, least, n + 1);
    const std::vector<double> density = angles.density(n + 1);
    // The angle below which lies what the next look may spend.
    const double allowed = spent(n + 1) - spent(n);
    double sum = 0, slice = 0;
    std::size_t i = 0;
    for (; i < Angles::kSteps; ++i, sum += slice) {
      slice = Angles::kStep / 2 * (density[i] * inside[i] + density[i + 1] * inside[i + 1]);
      if (sum + slice >= allowed) break;
    }
    const double angle = angles[i] + Angles::kStep * (allowed - sum) / slice;
    bounds_.push_back(std::sqrt(static_cast<double>(n)) / std::tan(angle));
  }
}

Estimate RepeatedIntervals::estimate(std::span<const double> values) const {
  if (first() == last()) return headcount::estimate(values);
  const Index n = std::ssize(values);
  const bool look = n >= first() && n <= last();
  return headcount::estimate(values, look ? std::optional(bound(n)) : std::nullopt);
}

}  // namespace headcount
