#include "train/report/chart_axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "train/compare/number_text.h"

namespace headcount {

namespace {

constexpr double kRoom = 0.08;  // share of the range that stays free beyond each of its ends
constexpr std::size_t kFew = 3, kMany = 7;

// Decimals of a tick's label: few enough to read, enough to tell 1, 2 and 5 times a power of ten
// apart.
int decimals_of(double step) {
  return std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 12);
}

// The narrowest range worth an axis: below it, differences are smaller than a label shows.
double narrowest_range(Scale scale, double largest) {
  if (scale == Scale::log2) return 2;     // octaves
  if (scale == Scale::log10) return 0.1;  // decades
  return largest > 0 ? largest * 1e-3 : 1;
}

}  // namespace

AxisMap::AxisMap(const ChartAxis& axis, std::span<const double> values)
    : axis_(axis), low_(0), high_(1) {
  std::vector<double> all;
  for (const double value : values) {
    if (places(value)) all.push_back(scaled(value));
  }
  if (all.empty()) return;
  low_ = *std::ranges::min_element(all);
  high_ = *std::ranges::max_element(all);
  const double largest = std::max(std::abs(low_), std::abs(high_));
  const double missing = narrowest_range(axis.scale, largest) - (high_ - low_);
  if (missing > 0) {
    low_ -= missing / 2;
    high_ += missing / 2;
  }
  const double room = kRoom * (high_ - low_);
  low_ -= room;
  high_ += room;
  if (axis.lowest) low_ = std::max(low_, scaled(*axis.lowest));
  if (axis.highest) high_ = std::min(high_, scaled(*axis.highest));
}

bool AxisMap::places(double value) const {
  return std::isfinite(value) && (axis_.scale == Scale::linear || value > 0);
}

double AxisMap::scaled(double value) const {
  if (axis_.scale == Scale::log2) return std::log2(value);
  return axis_.scale == Scale::log10 ? std::log10(value) : value;
}

double AxisMap::fraction(double value) const {
  if (axis_.scale != Scale::linear && value <= 0) return 0;
  const double result = (scaled(value) - low_) / (high_ - low_);
  return result > 0 ? std::min(result, 1.0) : 0;
}

Tick AxisMap::tick(double value, double step) const {
  return {value, axis_.label ? axis_.label(value) : number_text(value, decimals_of(step))};
}

std::vector<Tick> AxisMap::round_ticks(double low, double high) const {
  const double power = std::pow(10, std::floor(std::log10((high - low) / 5)));
  double step = power;
  for (const double factor : {1, 2, 5, 10}) {
    step = factor * power;
    if ((high - low) / step <= static_cast<double>(kMany)) break;
  }
  std::vector<Tick> ticks;
  for (double k = std::ceil(low / step); k * step <= high && ticks.size() < 2 * kMany; ++k) {
    ticks.push_back(tick(k * step, step));
  }
  return ticks;
}

std::vector<Tick> AxisMap::power_ticks(double base, std::span<const double> factors) const {
  const double unit = std::log2(base) / (axis_.scale == Scale::log2 ? 1 : std::log2(10));
  std::vector<Tick> ticks;
  for (double power = std::floor(low_ / unit); power * unit <= high_; ++power) {
    for (const double factor : factors) {
      const double value = factor * std::pow(base, power);
      if (scaled(value) < low_ || scaled(value) > high_) continue;
      ticks.push_back(tick(value, value));
    }
  }
  return ticks;
}

std::vector<Tick> AxisMap::ticks() const {
  static constexpr std::array<double, 1> kOne = {1};
  static constexpr std::array<double, 3> kThree = {1, 2, 5};
  static constexpr std::array<double, 5> kFive = {1, 2, 3, 5, 7};
  if (axis_.scale == Scale::linear) return round_ticks(low_, high_);
  const bool octaves = axis_.scale == Scale::log2;
  std::vector<Tick> ticks;
  if (!octaves) {
    ticks = power_ticks(10, kThree);
    if (ticks.size() < kFew) ticks = power_ticks(10, kFive);
    if (ticks.size() < kFew) return round_ticks(std::pow(10, low_), std::pow(10, high_));
    if (ticks.size() <= kMany) return ticks;
  }
  // Takes every power, else every second one, every third one, ... until the ticks are few enough.
  for (double base = octaves ? 2 : 10, all = base;; base *= all) {
    ticks = power_ticks(base, kOne);
    if (ticks.size() <= kMany) return ticks;
  }
}

}  // namespace headcount
