#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "train/compare/result_text.h"
#include "train/compare/results.h"
#include "train/compare/verdict.h"
#include "train/report/cache_drawing.h"
#include "train/report/chart_parts.h"
#include "train/report/conversion_chart.h"
#include "train/report/forest_plot.h"
#include "train/report/report.h"
#include "train/statistics.h"

namespace headcount {

namespace {

std::string points_text(const ComparisonResult& result) {
  const auto with = [&](std::size_t runs) {
    return std::ranges::count_if(
        result.variants, [&](const VariantResult& variant) { return variant.runs.size() >= runs; });
  };
  std::string text = with(2) > 0 ? " Bars are 95\u00a0% intervals over seeds (Student t)."
                                 : " One seed each, so there are no intervals.";
  if (with(1) > 1) {
    text += " Where points would cover each other, one is drawn beside its true place.";
  }
  return text;
}

ChartAxis cache_axis(const ComparisonResult& result) {
  return {"KV cache per token at " + number_text(static_cast<double>(result.context)) + " tokens",
          Scale::log2, bytes_text, std::nullopt, std::nullopt};
}

// Points of the front come first: they keep their places on the steps, others move aside.
template <class AddSeries>
std::vector<ChartSeries> front_first(const ComparisonResult& result, AddSeries add_series) {
  std::vector<ChartSeries> series;
  for (const bool front : {true, false}) {
    for (std::size_t i = 0; i < result.variants.size(); ++i) {
      const VariantResult& variant = result.variants[i];
      if (!variant.runs.empty() && variant.pareto == front) add_series(variant, Index(i), series);
    }
  }
  return series;
}

std::vector<std::pair<double, double>> front_steps(const ComparisonResult& result) {
  std::vector<std::pair<double, double>> steps;
  for (const VariantResult& variant : result.variants) {
    if (variant.runs.empty() || !variant.pareto || !std::isfinite(variant.loss.mean)) continue;
    steps.emplace_back(variant.cache_bytes_per_token, variant.loss.mean);
  }
  std::ranges::sort(steps);
  return steps;
}

void add_differences(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  const bool answers = result.question.metric == Metric::answers;
  const int decimals = answers ? 1 : 4;
  const std::string than = reference(result).spec;
  ForestPlot plot;
  plot.title = answers ? "Answers lost against " + than : "Loss against that of " + than;
  plot.x.title = answers ? "answers fewer right, percentage points"
                         : "loss less that of " + than + ", " + unit_of_loss(result);
  plot.tolerance = tolerance(result.question, reference(result).runs);
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& variant = result.variants[i];
    if (!variant.cost) continue;
    const Estimate cost{middle_cost(variant, result.question.metric), variant.cost->half_width};
    ForestRow& row = plot.rows.emplace_back();
    row.name = variant.spec;
    row.word = verdict_word(variant.verdict);
    row.style = Index(i);
    row.point = estimate_point(0, cost);
    row.point.hover = variant.spec + ": " + signed_text(cost.mean, decimals) +
                      half_width_text(cost, decimals) + ", " + row.word;
    for (const auto& [seed, value] : variant.costs) {
      row.values.emplace_back(value, variant.spec + ", seed " + std::to_string(seed) + ": " +
                                         signed_text(value, decimals));
    }
  }
  if (plot.rows.empty()) return;
  const std::string limit =
      plot.tolerance ? " of " + number_text(*plot.tolerance, decimals) : std::string();
  std::string caption;
  if (answers) {
    caption =
        "Dots are single seeds, markers their medians. An attention is enough where more dots lie "
        "in the shaded band, below the tolerance" +
        limit + ", than chance would put there if most seeds lost more (sign test).";
  } else {
    caption =
        "Markers are means over the seeds, dots single seeds. An attention is enough where its "
        "whole bar lies in the shaded band, below the tolerance" +
        limit + ".";
    if (result.question.seeds.grows()) {
      caption +=
          " The bars hold however often it was looked at (repeated 95\u00a0% confidence "
          "intervals).";
    } else if (result.question.intervals && result.question.seeds.last > 1) {
      caption += " Bars are 95\u00a0% intervals (Student t).";
    }
    caption +=
        " They suppose that seeds scatter about one value; where dots lie in two clusters, they "
        "mean nothing.";
  }
  plot.description = caption;
  charts.push_back({"differences.svg", caption, svg_text(plot)});
}

void add_caches(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  std::vector<const VariantResult*> drawn;
  for (const VariantResult& variant : result.variants) {
    if (!variant.cache.empty()) drawn.push_back(&variant);
  }
  if (drawn.empty()) return;
  const std::string caption =
      "What decoding keeps of one sequence, to scale. Layers stand side by side, each as wide as "
      "the "
      "numbers that a token leaves behind there, with a border between heads; the height is the "
      "tokens kept, in a frame as high as all tokens. At the right the height of " +
      number_text(static_cast<double>(result.context)) + " tokens is that of " +
      number_text(static_cast<double>(kLongContext)) + ".";
  charts.push_back({"cache.svg", caption,
                    cache_drawing(drawn, result.context, "The cache of each attention", caption)});
}

void add_loss_against_cache(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart;
  chart.title = "Validation loss against KV cache";
  chart.x = cache_axis(result);
  chart.y.title = "loss, " + unit_of_loss(result);
  chart.series = front_first(result, [](const VariantResult& variant, Index style, auto& series) {
    const double bytes = variant.cache_bytes_per_token;
    ChartPoint point = estimate_point(bytes, variant.loss);
    point.hover = variant.spec + ": loss " + estimate_text(variant.loss, 4) + ", " +
                  number_text(bytes) + " bytes a token";
    series.push_back({variant.spec, style, {point}});
  });
  if (chart.series.empty()) return;
  chart.steps = front_steps(result);
  std::string caption =
      "Lower and further left is better. The grey steps are the Pareto front of the means: what no "
      "other attention here beats in both." +
      points_text(result);
  if (result.entropy_per_character) {
    const double floor = *result.entropy_per_character;
    chart.floor = {floor, "floor " + number_text(floor, 4)};
    caption +=
        " The floor is the text's entropy, the least loss that any model can "
        "reach.";
  }
  chart.description = caption;
  charts.push_back({"loss_against_cache.svg", caption, svg_text(chart)});
}

// Mean training loss over the runs at every step that all of them have, from step `first` on.
std::vector<ChartPoint> mean_curve(const VariantResult& variant, Index first) {
  std::map<Index, std::vector<double>> at;
  for (const RunResult& run : variant.runs) {
    const std::size_t points = std::min(run.curve_steps.size(), run.curve_losses.size());
    for (std::size_t i = 0; i < points; ++i) at[run.curve_steps[i]].push_back(run.curve_losses[i]);
  }
  std::vector<ChartPoint> curve;
  for (const auto& [step, losses] : at) {
    if (step < first || losses.size() != variant.runs.size()) continue;
    const Estimate mean = estimate(losses);
    curve.push_back(estimate_point(static_cast<double>(step), mean));
    curve.back().hover = variant.spec + ", step " + number_text(static_cast<double>(step)) +
                         ": loss " + estimate_text(mean, 4);
  }
  return curve;
}

Index first_step_of(const ComparisonResult& result) {
  Index first = 0;
  for (const VariantResult& variant : result.variants) {
    for (const RunResult& run : variant.runs)
      first = std::max(first, first_step_shown(run.curve_steps));
  }
  return first;
}

void add_training_loss(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart;
  chart.title = "Training loss";
  chart.kind = ChartKind::line;
  bool bands = false;
  const Index first = first_step_of(result);
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& variant = result.variants[i];
    std::vector<ChartPoint> curve = mean_curve(variant, first);
    if (curve.empty()) continue;
    bands = bands || variant.runs.size() >= 2;
    chart.series.push_back({variant.spec, Index(i), std::move(curve)});
  }
  if (chart.series.empty()) return;
  chart.x.title = "step";
  chart.y = {"loss, " + unit_of_loss(result), loss_scale(chart.series), nullptr, std::nullopt,
             std::nullopt};
  std::string caption = bands ? "Mean over seeds; " + thin_out_bands(chart.series) + "."
                              : "One seed each, so there are no bands.";
  if (first > 0) {
    caption += " Steps before " + number_text(static_cast<double>(first)) + " are left out.";
  }
  chart.description = caption;
  charts.push_back({"training_loss.svg", caption, svg_text(chart)});
}

void add_decode_speed(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart;
  chart.title = "Decoding speed against context";
  chart.kind = ChartKind::line;
  chart.x = {"tokens in the cache", Scale::log2, [](double x) { return number_text(x); },
             std::nullopt, std::nullopt};
  chart.y = {"tokens per second", Scale::log10, nullptr, std::nullopt, std::nullopt};
  std::set<Index> contexts;
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& variant = result.variants[i];
    if (variant.runs.empty() || variant.decode.empty()) continue;
    ChartSeries series{variant.spec, Index(i), {}};
    for (const DecodeSpeed& speed : variant.decode) {
      contexts.insert(speed.context);
      const auto context = static_cast<double>(speed.context);
      series.points.push_back({context, speed.tokens_per_second, std::nullopt, std::nullopt,
                               variant.spec + ", context " + number_text(context) + ": " +
                                   number_text(speed.tokens_per_second) + " tokens/s"});
    }
    chart.series.push_back(std::move(series));
  }
  if (contexts.size() < 2) return;
  const std::string caption =
      "One sequence, with so many tokens in the cache already. Higher is better.";
  chart.description = caption;
  charts.push_back({"decode_speed.svg", caption, svg_text(chart)});
}

// Level of the answers that are right without a lookup.
void add_baselines(const ComparisonResult& result, Chart& chart, std::string& caption) {
  if (!result.baselines) return;
  const double best = 100 * result.baselines->best();
  chart.floor = {best, "without a lookup " + number_text(best, 1)};
  caption += " Right without a lookup: " + baselines_text(*result.baselines) + ".";
}

void add_answers_against_cache(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart;
  chart.title = "Right answers against KV cache";
  chart.x = cache_axis(result);
  chart.y = {"answers right, %", Scale::linear, nullptr, 0, 100};
  chart.series = front_first(result, [](const VariantResult& variant, Index style, auto& series) {
    if (!variant.answer_accuracy) return;
    const double bytes = variant.cache_bytes_per_token;
    ChartPoint point = estimate_point(bytes, *variant.answer_accuracy, 100);
    point.hover = variant.spec + ": " + estimate_text(*variant.answer_accuracy, 1, 100) +
                  " % right, " + number_text(bytes) + " bytes a token";
    std::vector<ChartPoint> points = {point};
    // Without an interval nothing else tells how they scatter.
    if (!variant.answer_accuracy->half_width && variant.runs.size() > 1) {
      points.clear();
      for (const RunResult& run : variant.runs) {
        const double right = 100 * run.answer_accuracy.value_or(0);
        points.push_back({bytes, right, std::nullopt, std::nullopt,
                          variant.spec + ", seed " + std::to_string(run.seed) + ": " +
                              number_text(right, 1) + " % right"});
      }
    }
    series.push_back({variant.spec, style, std::move(points)});
  });
  if (chart.series.empty()) return;
  std::string caption =
      "Share of the answers that the model predicts right: characters that only what was told "
      "earlier "
      "settles. Higher and further left is better." +
      points_text(result);
  add_baselines(result, chart, caption);
  chart.description = caption;
  charts.push_back({"answers_against_cache.svg", caption, svg_text(chart)});
}

// Share of right answers at each distance, mean over the runs; with intervals if `v` has them.
std::vector<ChartPoint> right_by_distance(const VariantResult& v) {
  std::map<Index, std::vector<double>> shares;
  for (const RunResult& run : v.runs) {
    for (const AnswersAt& at : run.answers_by_distance) {
      const double share = static_cast<double>(at.right) / static_cast<double>(at.asked);
      shares[at.from].push_back(share);
    }
  }
  std::vector<ChartPoint> points;
  for (const auto& [from, values] : shares) {
    Estimate mean = estimate(values);
    if (!v.answer_accuracy || !v.answer_accuracy->half_width) mean.half_width.reset();
    points.push_back(estimate_point(static_cast<double>(from), mean, 100));
    points.back().hover = v.spec + ", " + number_text(static_cast<double>(from)) + " to " +
                          number_text(static_cast<double>(2 * from - 1)) +
                          " characters back: " + estimate_text(mean, 1, 100) + " % right";
  }
  return points;
}

void add_answers_against_distance(const ComparisonResult& result,
                                  std::vector<ReportChart>& charts) {
  Chart chart;
  chart.title = "Right answers against distance";
  chart.kind = ChartKind::line;
  chart.x = {"characters back to what tells the answer", Scale::log2,
             [](double x) { return number_text(x); }, std::nullopt, std::nullopt};
  chart.y = {"answers right, %", Scale::linear, nullptr, 0, 100};
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    std::vector<ChartPoint> points = right_by_distance(result.variants[i]);
    if (!points.empty())
      chart.series.push_back({result.variants[i].spec, Index(i), std::move(points)});
  }
  if (chart.series.empty()) return;
  std::string caption =
      "How many of the answers are right, by how far back the character stands that tells them."
      " A point stands for distances up to the next one. Means over seeds; " +
      thin_out_bands(chart.series) + ".";
  add_baselines(result, chart, caption);
  chart.description = caption;
  charts.push_back({"answers_against_distance.svg", caption, svg_text(chart)});
}

// The result without converted models.
ComparisonResult from_scratch(ComparisonResult result) {
  std::erase_if(result.variants, [](const VariantResult& v) { return v.trained_on.has_value(); });
  summarize(result);
  return result;
}

void add_charts_of_attentions(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  add_loss_against_cache(result, charts);
  add_caches(result, charts);
  add_training_loss(result, charts);
  add_decode_speed(result, charts);
  add_answers_against_cache(result, charts);
  add_answers_against_distance(result, charts);
}

}  // namespace

std::vector<ReportChart> comparison_charts(const ComparisonResult& result) {
  std::vector<ReportChart> charts;
  add_differences(result, charts);
  if (has_conversions(result)) {
    charts.push_back(conversion_chart(result));
    add_charts_of_attentions(from_scratch(result), charts);
  } else {
    add_charts_of_attentions(result, charts);
  }
  return charts;
}

}  // namespace headcount
