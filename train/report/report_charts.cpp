#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "train/compare/number_text.h"
#include "train/compare/results.h"
#include "train/compare/verdict.h"
#include "train/report/cache_drawing.h"
#include "train/report/chart_parts.h"
#include "train/report/forest_plot.h"
#include "train/report/report.h"
#include "train/statistics.h"

namespace headcount {

namespace {

using Variant = const VariantResult&;

// Adds `drawing`, a Chart or a ForestPlot.
template <class Drawing>
void add_chart(std::vector<ReportChart>& charts, const char* file, Drawing drawing,
               const std::string& caption) {
  drawing.description = caption;
  charts.push_back({file, caption, svg_text(drawing)});
}

// One series per attention for which `points_of` gives points, in the attention's style.
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

// Series of the Pareto front come first: they keep their places on the steps, others move aside.
template <class PointsOf>
std::vector<ChartSeries> front_first(const ComparisonResult& result, const PointsOf& points_of) {
  std::vector<ChartSeries> all = series_of(result, points_of);
  std::stable_partition(all.begin(), all.end(), [&](const ChartSeries& series) {
    return result.variants[static_cast<std::size_t>(series.style)].pareto;
  });
  return all;
}

std::string points_text(const ComparisonResult& result) {
  const auto with = [&](std::size_t runs) {
    return std::ranges::count_if(result.variants, [&](Variant v) { return v.runs.size() >= runs; });
  };
  std::string text = with(2) > 0 ? " Bars are 95\u00a0% intervals over seeds (Student t)."
                                 : " One seed each, so there are no intervals.";
  if (with(1) > 1) {
    text += " Where points would cover each other, one is drawn beside its true place.";
  }
  return text;
}

ChartAxis cache_axis(const ComparisonResult& result) {
  return {"KV cache per token at " + count_text(result.context) + " tokens", Scale::log2,
          bytes_text};
}

ChartAxis loss_axis(const ComparisonResult& result, Scale scale = Scale::linear) {
  return {"loss, " + unit_of_loss(result), scale};
}

ChartAxis doubling_axis(const std::string& title) {
  return {title, Scale::log2, [](double x) { return number_text(x); }};
}

std::vector<std::pair<double, double>> front_steps(const ComparisonResult& result) {
  std::vector<std::pair<double, double>> steps;
  for (Variant v : result.variants) {
    if (!v.runs.empty() && v.pareto && std::isfinite(v.loss.mean))
      steps.emplace_back(v.cache_bytes_per_token, v.loss.mean);
  }
  std::ranges::sort(steps);
  return steps;
}

void add_differences(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  const bool answers = result.question.metric == Metric::answers;
  const int decimals = answers ? 1 : 4;
  const std::string than = reference(result).spec;
  ForestPlot plot;
  plot.title = answers ? "Answers lost compared with " + than : "Loss compared with " + than;
  plot.x.title = answers ? "answers lost, percentage points"
                         : "loss minus " + than + ", " + unit_of_loss(result);
  plot.tolerance = tolerance(result.question, reference(result).runs);
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    Variant variant = result.variants[i];
    if (!variant.cost) continue;
    const Estimate cost{middle_cost(variant, result.question.metric), variant.cost->half_width};
    ForestRow& row = plot.rows.emplace_back();
    row.name = variant.spec;
    row.word = verdict_word(variant.verdict);
    row.style = static_cast<Index>(i);
    row.point = estimate_point(0, cost,
                               variant.spec + ": " + signed_text(cost.mean, decimals) +
                                   half_width_text(cost, decimals) + ", " + row.word);
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
          " The bars hold however often the seeds were looked at (repeated 95\u00a0% confidence "
          "intervals).";
    } else if (result.question.intervals && result.question.seeds.last > 1) {
      caption += " Bars are 95\u00a0% intervals (Student t).";
    }
    caption +=
        " They assume that seeds scatter about one value; where dots lie in two clusters, they "
        "mean nothing.";
  }
  add_chart(charts, "differences.svg", plot, caption);
}

void add_caches(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  std::vector<const VariantResult*> drawn;
  for (Variant v : result.variants) {
    if (!v.cache.empty()) drawn.push_back(&v);
  }
  if (drawn.empty()) return;
  const std::string caption =
      "KV cache of one sequence, to scale. Layers stand side by side. The width of a layer is the "
      "numbers that it stores per token, with a border between heads; the height is the tokens "
      "that "
      "it keeps, in a frame as high as all tokens. On the right, the height of " +
      count_text(result.context) + " tokens stands for " + count_text(kLongContext) + ".";
  charts.push_back({"cache.svg", caption,
                    cache_drawing(drawn, result.context, "The cache of each attention", caption)});
}

void add_loss_against_cache(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart{
      .title = "Validation loss against KV cache", .x = cache_axis(result), .y = loss_axis(result)};
  chart.series = front_first(result, [](Variant v) -> std::vector<ChartPoint> {
    if (v.runs.empty()) return {};
    const double bytes = v.cache_bytes_per_token;
    return {estimate_point(bytes, v.loss,
                           v.spec + ": loss " + estimate_text(v.loss, 4) + ", " +
                               number_text(bytes) + " bytes a token")};
  });
  if (chart.series.empty()) return;
  chart.steps = front_steps(result);
  std::string caption =
      "Lower and further left is better. The grey steps are the Pareto front of the means: what no "
      "other attention here beats in both." +
      points_text(result);
  if (const auto floor = result.entropy_per_character) {
    chart.floor = {*floor, "floor " + number_text(*floor, 4)};
    caption += " The floor is the text's entropy, the least loss that any model can reach.";
  }
  add_chart(charts, "loss_against_cache.svg", chart, caption);
}

// Mean training loss over the runs at every step that all of them have, from step `first` on.
std::vector<ChartPoint> mean_curve(Variant variant, Index first) {
  std::map<Index, std::vector<double>> at;
  for (const RunResult& run : variant.runs) {
    const std::size_t points = std::min(run.curve_steps.size(), run.curve_losses.size());
    for (std::size_t i = 0; i < points; ++i) at[run.curve_steps[i]].push_back(run.curve_losses[i]);
  }
  std::vector<ChartPoint> curve;
  for (const auto& [step, losses] : at) {
    if (step < first || losses.size() != variant.runs.size()) continue;
    const Estimate mean = estimate(losses);
    curve.push_back(estimate_point(
        static_cast<double>(step), mean,
        variant.spec + ", step " + count_text(step) + ": loss " + estimate_text(mean, 4)));
  }
  return curve;
}

void add_training_loss(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart{.title = "Training loss", .kind = ChartKind::line, .x = {"step"}};
  Index first = 0;
  for (Variant v : result.variants) {
    for (const RunResult& run : v.runs) first = std::max(first, first_step_shown(run.curve_steps));
  }
  chart.series = series_of(result, [&](Variant v) { return mean_curve(v, first); });
  if (chart.series.empty()) return;
  chart.y = loss_axis(result, loss_scale(chart.series));
  const bool bands = std::ranges::any_of(
      chart.series, [](const ChartSeries& s) { return s.points.front().low.has_value(); });
  std::string caption = bands ? "Mean over seeds; " + thin_out_bands(chart.series) + "."
                              : "One seed each, so there are no bands.";
  if (first > 0) caption += " Steps before " + count_text(first) + " are left out.";
  add_chart(charts, "training_loss.svg", chart, caption);
}

void add_decode_speed(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart{.title = "Decoding speed against context",
              .kind = ChartKind::line,
              .x = doubling_axis("tokens in the cache"),
              .y = {"tokens per second", Scale::log10}};
  std::set<Index> contexts;
  chart.series = series_of(result, [&](Variant v) {
    std::vector<ChartPoint> points;
    for (const DecodeSpeed& speed : v.decode) {
      if (v.runs.empty()) break;
      contexts.insert(speed.context);
      points.push_back({static_cast<double>(speed.context), speed.tokens_per_second,
                        v.spec + ", context " + count_text(speed.context) + ": " +
                            number_text(speed.tokens_per_second) + " tokens/s"});
    }
    return points;
  });
  if (contexts.size() < 2) return;
  add_chart(
      charts, "decode_speed.svg", chart,
      "Decoding of one sequence, by the tokens that its cache already has. Higher is better.");
}

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

// The mean with its interval, or all seeds where there is no interval that says how they scatter.
std::vector<ChartPoint> answers_points(Variant v) {
  if (v.runs.empty() || !v.answer_accuracy) return {};
  const double bytes = v.cache_bytes_per_token;
  if (v.answer_accuracy->half_width || v.runs.size() == 1) {
    return {estimate_point(bytes, *v.answer_accuracy,
                           v.spec + ": " + estimate_text(*v.answer_accuracy, 1, 100) +
                               " % right, " + number_text(bytes) + " bytes a token",
                           100)};
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

void add_answers_against_cache(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  Chart chart =
      answers_chart("Right answers against KV cache", ChartKind::scatter, cache_axis(result));
  chart.series = front_first(result, answers_points);
  if (chart.series.empty()) return;
  std::string caption =
      "Share of the answers that the model predicts right. An answer is a character that only "
      "earlier text determines. Higher and further left is better." +
      points_text(result);
  add_baselines(result, chart, caption);
  add_chart(charts, "answers_against_cache.svg", chart, caption);
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

void add_answers_against_distance(const ComparisonResult& result,
                                  std::vector<ReportChart>& charts) {
  Chart chart =
      answers_chart("Right answers against distance", ChartKind::line,
                    doubling_axis("distance back to where the answer was told, characters"));
  chart.series = series_of(result, right_by_distance);
  if (chart.series.empty()) return;
  std::string caption =
      "Share of right answers by the distance back to where the answer was told. A point stands "
      "for "
      "distances up to the next point. Means over seeds; " +
      thin_out_bands(chart.series) + ".";
  add_baselines(result, chart, caption);
  add_chart(charts, "answers_against_distance.svg", chart, caption);
}

// Loss of converted models against training after conversion: one line per attention, and a level
// line at the loss of training from random weights.
void add_conversions(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  std::set<Index> percents;
  for (Variant v : result.variants) {
    if (v.trained_on && !v.runs.empty()) percents.insert(*v.trained_on);
  }
  // Percentages are drawn at equal distances.
  const auto place = [&](Index percent) {
    return static_cast<double>(std::distance(percents.begin(), percents.find(percent)));
  };
  const auto label = [&](double x) {
    const auto shown = std::ranges::find(percents, x, place);
    return shown == percents.end() ? "" : count_text(*shown) + " %";
  };
  Chart chart{.title = "Loss after conversion and further training",
              .kind = ChartKind::line,
              .x = {"further training, share of the steps from scratch", Scale::linear, label}};
  std::map<std::string, Index> styles;
  std::vector<ChartSeries> levels;
  for (Variant v : result.variants) {
    if (v.runs.empty()) continue;
    const Index style = styles.emplace(v.attention, std::ssize(styles)).first->second;
    const auto point = [&](double x) {
      return estimate_point(x, v.loss, v.spec + ": loss " + estimate_text(v.loss, 4));
    };
    if (!v.trained_on) {
      levels.push_back({v.attention + ", scratch",
                        style,
                        {point(0), point(static_cast<double>(percents.size()) - 1)}});
      continue;
    }
    auto same = std::ranges::find(chart.series, v.attention, &ChartSeries::name);
    if (same == chart.series.end()) same = chart.series.insert(same, {v.attention, style, {}});
    same->points.push_back(point(place(*v.trained_on)));
  }
  chart.series.insert(chart.series.end(), levels.begin(), levels.end());
  chart.y = loss_axis(result, loss_scale(chart.series));
  add_chart(charts, "conversions.svg", chart,
            "Each attention converted from the trained model, then trained further; the level line "
            "is the same attention trained from random weights for all steps." +
                std::string(result.seeds.size() > 1
                                ? " Bands are 95\u00a0% intervals over seeds (Student t)."
                                : ""));
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
  ComparisonResult from_scratch = result;
  const auto converted =
      std::erase_if(from_scratch.variants, [](Variant v) { return v.trained_on.has_value(); });
  if (converted == 0) {
    add_charts_of_attentions(result, charts);
  } else {
    add_conversions(result, charts);
    summarize(from_scratch);
    add_charts_of_attentions(from_scratch, charts);
  }
  return charts;
}

}  // namespace headcount
