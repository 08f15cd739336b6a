#include "train/report/answers_charts.h"

#include <algorithm>
#include <map>
#include <vector>

#include "train/compare/number_text.h"
#include "train/report/chart_parts.h"
#include "train/statistics.h"

namespace headcount {

namespace {

Chart answers_chart(std::string title, ChartKind kind, ChartAxis x) {
  return {.title = std::move(title),
          .kind = kind,
          .x = std::move(x),
          .y = {"answers right, %", Scale::linear, nullptr, 0, 100}};
}

// Adds a level line at the share of answers that the best baseline gets right without a lookup.
void add_baselines(const ComparisonResult& result, Chart& chart, std::string& caption) {
  if (!result.baselines) return;
  const double best = 100 * result.baselines->best();
  chart.floor = {best, "without a lookup " + number_text(best, 1)};
  caption += " Right without a lookup: " + baselines_text(*result.baselines) + ".";
}

// The mean with a bar from the least to the most of the seeds, or all seeds where the mean has no
// interval. An interval of the mean would seem to decide what a sign test decides.
std::vector<ChartPoint> answers_points(Variant v) {
  if (v.runs.empty() || !v.answer_accuracy) return {};
  const double bytes = v.cache_bytes_per_token;
  if (v.answer_accuracy->half_width || v.runs.size() == 1) {
    ChartPoint point{bytes, 100 * v.answer_accuracy->mean,
                     v.spec + ": " + estimate_text(*v.answer_accuracy, 1, 100) + " % right, " +
                         number_text(bytes) + " bytes a token"};
    if (v.answer_accuracy->half_width) {
      std::vector<double> right;
      for (const RunResult& run : v.runs) right.push_back(100 * run.answer_accuracy.value_or(0));
      const auto [least, most] = std::ranges::minmax_element(right);
      point.low = *least;
      point.high = *most;
    }
    return {point};
  }
  std::vector<ChartPoint> points;
  for (const RunResult& run : v.runs) {
    const double right = 100 * run.answer_accuracy.value_or(0);
    points.push_back({bytes, right,
                      v.spec + ", seed " + std::to_string(run.seed) + ": " + number_text(right, 1) +
                          " % right"});
  }
  return points;
}

// Share of right answers at each distance, mean over the runs; with intervals if `v` has them.
std::vector<ChartPoint> right_by_distance(Variant v) {
  std::map<Index, std::vector<double>> shares;
  for (const RunResult& run : v.runs) {
    for (const AnswersAt& at : run.answers_by_distance)
      shares[at.from].push_back(static_cast<double>(at.right) / static_cast<double>(at.asked));
  }
  std::vector<ChartPoint> points;
  for (const auto& [from, values] : shares) {
    Estimate mean = estimate(values);
    if (!v.answer_accuracy || !v.answer_accuracy->half_width) mean.half_width.reset();
    points.push_back(
        estimate_point(static_cast<double>(from), mean,
                       v.spec + ", " + count_text(from) + " to " + count_text(2 * from - 1) +
                           " characters back: " + estimate_text(mean, 1, 100) + " % right",
                       100));
  }
  return points;
}

}  // namespace

void add_answers_against_cache(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart =
      answers_chart("Right answers against KV cache", ChartKind::scatter, cache_axis(result));
  chart.series = front_first(result, answers_points);
  if (chart.series.empty()) return;
  std::string caption =
      "Share of the answers that the model predicts right. An answer is a character that only "
      "earlier text determines. Higher and further left is better." +
      points_text(chart.series, result, "Each point is one seed.",
                  "Bars go from the least to the most of all seeds of a row, points are means over "
                  "the seeds that all rows have.");
  add_baselines(result, chart, caption);
  add_chart(charts, "answers_against_cache.svg", chart, caption);
}

void add_answers_against_distance(const ComparisonResult& result,
                                  std::vector<ReportChart>& charts) {
  Chart chart =
      answers_chart("Right answers against distance", ChartKind::line,
                    doubling_axis("distance back to where the answer was told, characters"));
  chart.series = series_of(result, right_by_distance);
  if (chart.series.empty()) return;
  std::string caption =
      "Share of right answers by the distance back to where the answer was told. A point stands "
      "for distances up to the next point. " +
      thin_out_bands(chart.series, result);
  add_baselines(result, chart, caption);
  add_chart(charts, "answers_against_distance.svg", chart, caption);
}

}  // namespace headcount
