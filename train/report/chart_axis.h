#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/report/chart.h"

namespace headcount {

struct Tick {
  double value;
  std::string label;
};

/// Where the values of a chart lie along one of its axes, from 0 at the lower end to 1. The ends
/// leave some room around the values that the axis is made for.
class AxisMap {
 public:
  /// `values` that the axis cannot place are ignored; without any other it runs from 0 to 1, or
  /// from 1 to 2 or 10.
  AxisMap(const ChartAxis& axis, std::span<const double> values);

  /// Finite, and positive if the axis is logarithmic.
  bool places(double value) const;

  /// 0 to 1; what lies beyond an end is at that end. Not for NaN.
  double fraction(double value) const;

  /// About six, in rising order, all within the ends.
  std::vector<Tick> ticks() const;

 private:
  double scaled(double value) const;
  std::vector<Tick> round_ticks(double low, double high) const;
  std::vector<Tick> power_ticks(double base, std::span<const double> factors) const;

  const ChartAxis& axis_;
  double low_, high_;  // logarithms on a logarithmic axis
};

}  // namespace headcount
