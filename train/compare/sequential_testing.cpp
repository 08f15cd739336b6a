#include "train/compare/sequential_testing.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/show/statistics.h"

namespace headcount {

namespace {

constexpr double kRhoOfIntervals = 3, kRhoOfSigns = 0.5;

// Error spending function: greatest probability of a wrong conclusion at any look up to the one
// after n values.
double error_by(Index n, Index last, double rho) {
  return kOutsideInterval * std::pow(static_cast<double>(n) / static_cast<double>(last), rho);
}

// n normal values of mean zero are a vector in a uniformly random direction of n-space, at an angle
// to the diagonal (1, ..., 1) whose cotangent is t / sqrt(n - 1) and whose density is proportional
// to sin^(n-2). Functions of that angle are tabulated on a grid from 0 to a right angle, about
// which they are symmetric.
constexpr std::size_t kAngles = 512;
constexpr double kAngleStep = std::numbers::pi / 2 / kAngles;
using AngleTable = std::vector<double>;

double grid_angle(std::size_t i) { return static_cast<double>(i) * kAngleStep; }

double interpolated(const AngleTable& table, double angle) {
  const double place = std::min(angle / kAngleStep, static_cast<double>(kAngles));
  const auto i = std::min(static_cast<std::size_t>(place), kAngles - 1);
  const double share = place - static_cast<double>(i);
  return (1 - share) * table[i] + share * table[i + 1];
}

AngleTable angle_density(Index n) {
  AngleTable density(kAngles + 1);
  double sum = 0;
  for (std::size_t i = 0; i <= kAngles; ++i) {
    density[i] = std::pow(std::sin(grid_angle(i)), n - 2);
    sum += i == 0 || i == kAngles ? density[i] / 2 : density[i];
  }
  for (double& value : density) value /= sum * kAngleStep;
  return density;
}

// Table of conditional probabilities, given the angle of n values, that no look up to the one after
// n - 1 values has failed, that is, missed the true mean. `inside` is the same table for n - 1
// values. The look after n - 1 values fails if their angle is below `least`. Given the angle of n
// values, their direction is still random about the diagonal, and it determines the last value's
// share of the length.
AngleTable with_one_more(const AngleTable& inside, double least, Index n) {
  constexpr int kTurns = 256;
  const double root = std::sqrt(static_cast<double>(n));
  const double rest = std::sqrt(static_cast<double>(n - 1));
  std::vector<double> cosines(kTurns), weights(kTurns);
  double sum = 0;
  for (std::size_t k = 0; k < kTurns; ++k) {
    const double turn = (static_cast<double>(k) + 0.5) * std::numbers::pi / kTurns;
    cosines[k] = std::cos(turn);
    sum += weights[k] = std::pow(std::sin(turn), n - 3);
  }
  AngleTable result(kAngles + 1);
  for (std::size_t i = 0; i <= kAngles; ++i) {
    const double along = std::cos(grid_angle(i)), across = std::sin(grid_angle(i));
    for (std::size_t k = 0; k < kTurns; ++k) {
      const double last = along / root + across * rest / root * cosines[k];
      const double before = std::abs(root * along - last) / (rest * std::sqrt(1 - last * last));
      const double angle = std::acos(std::min(before, 1.0));
      if (angle >= least) result[i] += weights[k] / sum * interpolated(inside, angle);
    }
  }
  return result;
}

// Critical angle of a look: the angle is below it and no earlier look has failed with probability
// `allowed`. `density` is the density of the angle, and `inside` the conditional probability, given
// the angle, that no earlier look has failed.
double angle_with_probability_below(double allowed, const AngleTable& density,
                                    const AngleTable& inside) {
  double sum = 0, slice = 0;
  std::size_t i = 0;
  for (; i < kAngles; ++i, sum += slice) {
    slice = kAngleStep / 2 * (density[i] * inside[i] + density[i + 1] * inside[i + 1]);
    if (sum + slice >= allowed) break;
  }
  return grid_angle(i) + kAngleStep * (allowed - sum) / slice;
}

}  // namespace

std::vector<double> repeated_interval_bounds(Index first, Index last) {
  std::vector<double> bounds = {student_t(first - 1, error_by(first, last, kRhoOfIntervals))};
  AngleTable inside(kAngles + 1, 1);
  for (Index n = first; n < last; ++n) {
    const double root = std::sqrt(static_cast<double>(n));
    const double least = std::atan(std::sqrt(static_cast<double>(n - 1)) / bounds.back());
    inside = with_one_more(inside, least, n + 1);
    const double allowed =
        error_by(n + 1, last, kRhoOfIntervals) - error_by(n, last, kRhoOfIntervals);
    bounds.push_back(root /
                     std::tan(angle_with_probability_below(allowed, angle_density(n + 1), inside)));
  }
  return bounds;
}

std::vector<Index> sign_test_exceptions(Index first, Index last) {
  std::vector<Index> exceptions;
  // undecided[k]: probability that n tosses of a fair coin give k exceptions and that no earlier
  // look has decided.
  std::vector<double> undecided(static_cast<std::size_t>(last) + 2);
  undecided[0] = 1;
  double spent = 0;
  for (Index n = 1; n <= last; ++n) {
    for (auto k = static_cast<std::size_t>(n); k > 0; --k)
      undecided[k] = (undecided[k] + undecided[k - 1]) / 2;
    undecided[0] /= 2;
    if (n < first) continue;
    std::size_t decisive = 0;
    for (; spent + undecided[decisive] <= error_by(n, last, kRhoOfSigns); ++decisive) {
      spent += undecided[decisive];
      undecided[decisive] = 0;
    }
    exceptions.push_back(static_cast<Index>(decisive) - 1);
  }
  return exceptions;
}

Verdict verdict(const Estimate& cost, std::optional<double> tolerance) {
  if (!tolerance || !cost.half_width) return Verdict::open;
  if (cost.mean + *cost.half_width < *tolerance) return Verdict::enough;
  return cost.mean - *cost.half_width > *tolerance ? Verdict::not_enough : Verdict::open;
}

Judge::Judge(Metric metric, const SeedRange& seeds) : metric_(metric) {
  // One seed alone has no interval.
  const Index first = std::max<Index>(2, seeds.first), last = std::max<Index>(2, seeds.last);
  first_ = static_cast<std::size_t>(first);
  bounds_ = repeated_interval_bounds(first, last);
  exceptions_ = sign_test_exceptions(first, last);
}

Estimate Judge::interval(std::span<const double> costs) const {
  if (bounds_.size() == 1) return estimate(costs);
  const bool look = costs.size() >= first_ && costs.size() < first_ + bounds_.size();
  return estimate(costs, look ? std::optional(bounds_[costs.size() - first_]) : std::nullopt);
}

Verdict Judge::verdict(std::span<const double> costs, std::optional<double> tolerance) const {
  if (costs.empty() || !tolerance) return Verdict::open;
  if (metric_ == Metric::loss) {
    const bool diverged = std::ranges::none_of(costs, [](double c) { return std::isfinite(c); });
    if (diverged && costs.size() >= first_) return Verdict::not_enough;
    return headcount::verdict(interval(costs), tolerance);
  }
  const Index seeds = std::ssize(costs);
  const bool fixed = exceptions_.size() == 1;
  if (!fixed && costs.size() < first_) return Verdict::open;
  const Index most =
      fixed ? sign_test_exceptions(seeds, seeds).front() : exceptions_.at(costs.size() - first_);
  const auto below = std::ranges::count_if(costs, [&](double cost) { return cost < *tolerance; });
  const auto above = std::ranges::count_if(costs, [&](double cost) { return cost > *tolerance; });
  if (seeds - below <= most) return Verdict::enough;
  return seeds - above <= most ? Verdict::not_enough : Verdict::open;
}

}  // namespace headcount
