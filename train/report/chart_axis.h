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

/// Maps values to positions along one axis of a chart, from 0 at the lower end to 1 at the upper.
/// The ends leave some room around the values that the axis is made for.
class AxisMap {
 public:
  /// `values` that the axis cannot place are ignored. Without other values it runs from 0 to 1, on
  /// logarithmic axes from 1 to 2 or 10.
  AxisMap(const ChartAxis& axis, std::span<const double> values);

  /// Returns true if the axis can show `value`: it is finite, and positive if the axis is
  /// logarithmic.
  bool places(double value) const;

  /// Position of `value`, 0 to 1; values beyond an end are at that end. Not for NaN.
  double fraction(double value) const;

  /// About six ticks in rising order, all within the ends.
  std::vector<Tick> ticks() const;

 private:
  double scaled(double value) const;
  Tick tick(double value, double step) const;
  std::vector<Tick> round_ticks(double low, double high) const;
  std::vector<Tick> power_ticks(double base, std::span<const double> factors) const;

  const ChartAxis& axis_;
  double low_, high_;  // logarithms on a logarithmic axis
};

}  // namespace headcount
