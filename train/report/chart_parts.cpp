#include "train/report/chart_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace headcount {

ChartPoint estimate_point(double x, const Estimate& estimate, std::string hover, double unit) {
  ChartPoint point{x, unit * estimate.mean, std::move(hover)};
  if (estimate.half_width) {
    point.low = unit * (estimate.mean - *estimate.half_width);
    point.high = unit * (estimate.mean + *estimate.half_width);
  }
  return point;
}

std::string unit_of_loss(const ComparisonResult& result) {
  return result.only_answers ? "nats per answer" : "nats per character";
}

std::string thin_out_bands(std::vector<ChartSeries>& all) {
  constexpr std::size_t kMostBands = 5;
  if (all.size() <= kMostBands) return "bands are 95\u00a0% intervals (Student t)";
  for (ChartSeries& series : all) {
    for (ChartPoint& point : series.points) point.low = point.high = std::nullopt;
  }
  return "intervals are not drawn, since that many bands would hide each other";
}

Index first_step_shown(std::span<const Index> steps) {
  constexpr std::size_t kShort = 20;
  return steps.size() < kShort ? 0 : steps.back() / 10;
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
