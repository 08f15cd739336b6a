#include "train/report/conversion_chart.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "train/compare/result_text.h"
#include "train/report/chart_parts.h"

namespace headcount {

bool has_conversions(const ComparisonResult& result) {
  return std::ranges::any_of(result.variants,
                             [](const VariantResult& v) { return v.trained_on.has_value(); });
}

ReportChart conversion_chart(const ComparisonResult& result) {
  std::set<Index> percents;
  for (const VariantResult& v : result.variants) {
    if (v.trained_on && !v.runs.empty()) percents.insert(*v.trained_on);
  }
  const std::vector<Index> places(percents.begin(), percents.end());
  Chart chart;
  chart.title = "Loss after conversion and training on";
  chart.kind = ChartKind::line;
  std::map<std::string, Index> styles;
  std::vector<ChartSeries> levels;
  for (const VariantResult& v : result.variants) {
    if (v.runs.empty()) continue;
    const Index style = styles.emplace(v.attention, std::ssize(styles)).first->second;
    const auto point = [&](double x) {
      ChartPoint p = estimate_point(x, v.loss);
      p.hover = v.spec + ": loss " + estimate_text(v.loss, 4);
      return p;
    };
    if (!v.trained_on) {
      levels.push_back({v.attention + ", scratch",
                        style,
                        {point(0), point(static_cast<double>(places.size()) - 1)}});
      continue;
    }
    auto same = std::ranges::find(chart.series, v.attention, &ChartSeries::name);
    if (same == chart.series.end()) same = chart.series.insert(same, {v.attention, style, {}});
    const auto place = std::ranges::find(places, *v.trained_on) - places.begin();
    same->points.push_back(point(static_cast<double>(place)));
  }
  chart.series.insert(chart.series.end(), levels.begin(), levels.end());
  chart.x = {"share of the steps that converted models were trained on for", Scale::linear,
             [places](double x) {
               const auto place = static_cast<std::size_t>(std::max(0.0, x));
               const bool is_place = x == std::floor(x) && x >= 0 && place < places.size();
               return is_place ? number_text(static_cast<double>(places[place])) + " %" : "";
             },
             std::nullopt, std::nullopt};
  chart.y = {"loss, " + unit_of_loss(result), loss_scale(chart.series), nullptr, std::nullopt,
             std::nullopt};
  const std::string caption =
      "Each attention converted from the trained model, then trained on; the level line is the "
      "same "
      "attention trained from random weights for all steps." +
      std::string(result.seeds.size() > 1 ? " Bands are 95\u00a0% intervals over seeds (Student t)."
                                          : "");
  chart.description = caption;
  return {"conversions.svg", caption, svg_text(chart)};
}

}  // namespace headcount
