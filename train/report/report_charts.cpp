#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "train/compare/number_text.h"
#include "train/compare/results.h"
#include "train/compare/verdict.h"
#include "train/report/answers_charts.h"
#include "train/report/cache_drawing.h"
#include "train/report/chart_parts.h"
#include "train/report/forest_plot.h"
#include "train/report/report.h"
#include "train/statistics.h"

namespace headcount {

namespace {

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
      points_text(chart.series, result, "Points are means over seeds.");
  if (const auto floor = result.entropy_per_character) {
    chart.floor = {*floor, "floor " + number_text(*floor, 4)};
    caption += " The floor is the text's entropy, the least loss that any model can reach.";
  }
  add_chart(charts, "loss_against_cache.svg", chart, caption);
}

// Mean training loss over the runs at every step that all of them have, from step `first` on.
std::vector<ChartPoint> mean_curve(const ComparisonResult& result, Variant variant, Index first) {
  std::map<Index, std::vector<double>> at;
  for (const RunResult& run : variant.runs) {
    const std::size_t points = std::min(run.curve_steps.size(), run.curve_losses.size());
    for (std::size_t i = 0; i < points; ++i) at[run.curve_steps[i]].push_back(run.curve_losses[i]);
  }
  std::vector<ChartPoint> curve;
  for (const auto& [step, losses] : at) {
    if (step < first || losses.size() != variant.runs.size()) continue;
    const Estimate mean = shown_estimate(losses, result);
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
  chart.series = series_of(result, [&](Variant v) { return mean_curve(result, v, first); });
  if (chart.series.empty()) return;
  chart.y = loss_axis(result, loss_scale(chart.series));
  std::string caption = thin_out_bands(chart.series, result);
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

// Loss of `v` minus the reference's by position, paired by seed.
std::vector<ChartPoint> cost_by_position(const ComparisonResult& result, Variant v) {
  Variant than = reference(result);
  std::map<Index, std::vector<double>> costs;
  for (const RunResult& run : v.runs) {
    const auto same = std::ranges::find(than.runs, run.seed, &RunResult::seed);
    if (same == than.runs.end()) continue;
    for (const LossAt& at : run.loss_by_position) {
      const auto there = std::ranges::find(same->loss_by_position, at.from, &LossAt::from);
      if (there != same->loss_by_position.end()) costs[at.from].push_back(at.loss - there->loss);
    }
  }
  std::vector<ChartPoint> points;
  for (const auto& [from, values] : costs) {
    const Estimate mean = shown_estimate(values, result);
    const Index end = std::min(result.context, from == 0 ? 32 : 2 * from);
    points.push_back(estimate_point(static_cast<double>(end), mean,
                                    v.spec + ", positions " + count_text(from) + " to " +
                                        count_text(end - 1) + ": " + signed_text(mean.mean, 4) +
                                        half_width_text(mean, 4)));
  }
  return points;
}

void add_loss_by_position(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  const VariantResult& than = reference(result);
  Chart chart{.title = "Loss by position, compared with " + than.spec,
              .kind = ChartKind::line,
              .x = doubling_axis("position in the context, up to"),
              .y = {"loss minus " + than.spec + ", " + unit_of_loss(result)}};
  chart.series = series_of(result, [&](Variant v) { return cost_by_position(result, v); });
  const auto one_range = [](const ChartSeries& s) { return s.points.size() < 2; };
  if (chart.series.empty() || std::ranges::all_of(chart.series, one_range)) return;
  const std::string caption =
      "Loss minus the reference's of the characters at positions up to that of the point and above "
      "the point before. Where a line rises, less cache costs more the more text lies behind. " +
      thin_out_bands(chart.series, result);
  add_chart(charts, "loss_by_position.svg", chart, caption);
}

// Loss of converted models against training after conversion: one line per attention, and a level
// line at the loss of training from random weights.
void add_conversions(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  std::set<Index> percents;
  for (Variant v : result.variants) {
    if (v.trained_on && !v.runs.empty()) percents.insert(*v.trained_on);
  }
  if (percents.empty()) return;
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
                std::string(result.question.intervals && result.seeds.size() > 1
                                ? " Bands are 95\u00a0% intervals over seeds (Student t)."
                                : ""));
}

void add_charts_of_attentions(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  add_loss_against_cache(result, charts);
  add_caches(result, charts);
  add_training_loss(result, charts);
  add_loss_by_position(result, charts);
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
