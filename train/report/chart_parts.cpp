#include "train/report/chart_parts.h"

#include <algorithm>
#include <cmath>

namespace headcount {

ChartPoint estimate_point(double x, const Estimate& estimate, double unit) {
  ChartPoint point{x, unit * estimate.mean, std::nullopt, std::nullopt, ""};
  if (estimate.half_width) {
    point.low = unit * (estimate.mean - *estimate.half_width);
    point.high = unit * (estimate.mean + *estimate.half_width);
  }
  return point;
}

std::string unit_of_loss(const ComparisonResult& result) {
  return result.only_answers ? "nats per answer" : "nats per character";
}

Scale loss_scale(const std::vector<ChartSeries>& all) {
  double low = HUGE_VAL, high = 0;
  for (const ChartSeries& series : all) {
    for (const ChartPoint& point : series.points) {
      if (!std::isfinite(point.y)) continue;
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  return low > 0 && high > 3 * low ? Scale::log10 : Scale::linear;
}

}  // namespace headcount
