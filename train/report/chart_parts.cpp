#include "train/report/chart_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "train/compare/number_text.h"

namespace headcount {

namespace {

bool has_intervals(const std::vector<ChartSeries>& all) {
  return std::ranges::any_of(
      all, [](const ChartSeries& series) { return series.points.front().low.has_value(); });
}

}  // namespace

std::string points_text(const std::vector<ChartSeries>& all, const ComparisonResult& result,
                        std::string_view points, std::string_view bars) {
  const auto with = [&](std::size_t runs) {
    return std::ranges::count_if(result.variants, [&](Variant v) { return v.runs.size() >= runs; });
  };
  std::string text = with(2) == 0         ? " One seed each, so there are no intervals."
                     : has_intervals(all) ? " " + std::string(bars)
                                          : " " + std::string(points);
  if (with(1) > 1) {
    text += " Where points would cover each other, one is drawn beside its true place.";
  }
  return text;
}

ChartAxis cache_axis(const ComparisonResult& result) {
  return {"KV cache per token at " + count_text(result.context) + " tokens", Scale::log2,
          bytes_text};
}

ChartAxis loss_axis(const ComparisonResult& result, Scale scale) {
  return {"loss, " + unit_of_loss(result), scale};
}

ChartAxis doubling_axis(const std::string& title) {
  return {title, Scale::log2, [](double x) { return number_text(x); }};
}

Estimate shown_estimate(const std::vector<double>& values, const ComparisonResult& result) {
  Estimate shown = estimate(values);
  if (!result.question.intervals) shown.half_width.reset();
  return shown;
}

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

std::string thin_out_bands(std::vector<ChartSeries>& all, const ComparisonResult& result) {
  constexpr std::size_t kMostBands = 5;
  if (!has_intervals(all))
    return result.seeds.size() > 1 ? "Means over seeds." : "One seed each, so there are no bands.";
  if (all.size() <= kMostBands)
    return "Means over seeds; bands are 95\u00a0% intervals (Student t).";
  for (ChartSeries& series : all) {
    for (ChartPoint& point : series.points) point.low = point.high = std::nullopt;
  }
  return "Means over seeds; intervals are not drawn, since that many bands would hide each other.";
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
