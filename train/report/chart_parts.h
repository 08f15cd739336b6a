#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/compare/results.h"
#include "train/report/chart.h"
#include "train/report/report.h"
#include "train/statistics.h"

/// Parts that several charts of a comparison share.
namespace headcount {

using Variant = const VariantResult&;

/// Adds `drawing`, a Chart or a ForestPlot.
template <class Drawing>
void add_chart(std::vector<ReportChart>& charts, const char* file, Drawing drawing,
               const std::string& caption) {
  drawing.description = caption;
  charts.push_back({file, caption, svg_text(drawing)});
}

/// One series per attention for which `points_of` gives points, in the attention's style.
template <class PointsOf>
std::vector<ChartSeries> series_of(const ComparisonResult& result, const PointsOf& points_of) {
  std::vector<ChartSeries> all;
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    std::vector<ChartPoint> points = points_of(result.variants[i]);
    if (!points.empty())
      all.push_back({result.variants[i].spec, static_cast<Index>(i), std::move(points)});
  }
  return all;
}

/// Series of a chart, those on the Pareto front first: their points keep their places on the steps,
/// and others move aside.
template <class PointsOf>
std::vector<ChartSeries> front_first(const ComparisonResult& result, const PointsOf& points_of) {
  std::vector<ChartSeries> all = series_of(result, points_of);
  std::stable_partition(all.begin(), all.end(), [&](const ChartSeries& series) {
    return result.variants[static_cast<std::size_t>(series.style)].pareto;
  });
  return all;
}

/// Sentence on bars that are intervals of means.
inline constexpr std::string_view kIntervalBars =
    "Bars are 95\u00a0% intervals over seeds (Student t).";

/// Caption, with a space before it, about the bars of a scatter chart's series, if they have any,
/// and about points moved aside. `points` says what the points of several seeds are without bars.
std::string points_text(const std::vector<ChartSeries>& all, const ComparisonResult& result,
                        std::string_view points, std::string_view bars = kIntervalBars);

/// Axes of bytes a token, of losses, and of a number that doubles from tick to tick.
ChartAxis cache_axis(const ComparisonResult& result);
ChartAxis loss_axis(const ComparisonResult& result, Scale scale = Scale::linear);
ChartAxis doubling_axis(const std::string& title);

/// Mean of values over seeds, with its interval if the comparison has intervals.
Estimate shown_estimate(const std::vector<double>& values, const ComparisonResult& result);

/// Point of a mean with its interval, both times `unit`.
ChartPoint estimate_point(double x, const Estimate& estimate, std::string hover, double unit = 1);

/// Unit of the comparison's loss: "nats per character" or "nats per answer".
std::string unit_of_loss(const ComparisonResult& result);

/// Removes the intervals of all points if there are more than five lines, whose bands would hide
/// each other. Returns a caption about means and bands: "Means over seeds; bands are 95 % intervals
/// ...", or that there are no bands, and why.
std::string thin_out_bands(std::vector<ChartSeries>& all, const ComparisonResult& result);

/// First step that is worth showing of a curve of losses at `steps`, which rise. The first tenth of
/// training, in which every loss falls alike from that of guessing, would leave no
/// height for the rest. A short curve is shown whole.
Index first_step_shown(std::span<const Index> steps);

/// Scale for losses: logarithmic if they fall to a small fraction of their first value.
Scale loss_scale(const std::vector<ChartSeries>& all);

}  // namespace headcount
