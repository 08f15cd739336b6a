#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/report/chart.h"

namespace headcount {

/// One line of a forest plot: an estimate with its interval, and the values that it is of.
struct ForestRow {
  std::string name, word;  ///< "mqa" and, below it, "enough"
  Index style = 0;         ///< as ChartSeries has it
  ChartPoint point;        ///< y is the estimate, low and high its interval; x means nothing
  std::vector<std::pair<double, std::string>> values;  ///< each a dot, and what it says on pointing
};

/// Differences from a reference, which is at zero, one below the other (Lewis and Clarke 2001, BMJ
/// 322, 1479); what lies below the tolerance is a band.
struct ForestPlot {
  std::string title, description;  ///< the second for screen readers
  ChartAxis x;                     ///< linear
  std::vector<ForestRow> rows;
  std::optional<double> tolerance;
};

/// As svg_text of a chart. An interval that is far wider than the values lie apart ends in an
/// arrow.
std::string svg_text(const ForestPlot& plot);

}  // namespace headcount
