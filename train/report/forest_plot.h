#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/report/chart.h"

namespace headcount {

/// One row of a forest plot: an estimate with its interval, and the values behind it.
struct ForestRow {
  std::string name, word;  ///< "mqa" and, below it, "enough"
  Index style = 0;         ///< see ChartSeries::style
  ChartPoint point;        ///< y is the estimate, low and high its interval; x means nothing
  std::vector<std::pair<double, std::string>> values;  ///< dots, with their hover text
};

/// Forest plot: differences from a reference, which is at zero, one below the other (Lewis and
/// Clarke 2001, BMJ 322, 1479). A band marks the range below the tolerance.
struct ForestPlot {
  std::string title, description;  ///< description: for screen readers
  ChartAxis x;                     ///< linear
  std::vector<ForestRow> rows;
  std::optional<double> tolerance;
};

/// The forest plot as one <svg> element, as svg_text of a chart. An interval that is much wider
/// than the spread of the values ends in an arrow.
std::string svg_text(const ForestPlot& plot);

}  // namespace headcount
