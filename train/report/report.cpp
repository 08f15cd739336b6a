#include "train/report/report.h"

#include <algorithm>
#include <cmath>

#include "train/compare/columns.h"
#include "train/compare/number_text.h"
#include "train/compare/premises.h"
#include "train/compare/results.h"
#include "train/compare/verdict.h"
#include "train/report/page.h"
#include "train/report/reading_figures.h"
#include "train/report/try_link.h"

namespace headcount {

namespace {

constexpr std::size_t kNamedInTitle = 6;   // most attentions that a title names
constexpr std::size_t kNumbersInText = 6;  // differences; more stand in the table only

/// The variants with a finished run; the others have no numbers.
std::vector<const VariantResult*> finished(const ComparisonResult& result) {
  std::vector<const VariantResult*> variants;
  for (const VariantResult& variant : result.variants) {
    if (!variant.runs.empty()) variants.push_back(&variant);
  }
  return variants;
}

bool repeated(const ComparisonResult& result) {
  return std::ranges::any_of(result.variants, [](const auto& v) { return v.runs.size() >= 2; });
}

std::string difference_text(const Estimate& difference) {
  return signed_text(difference.mean, 4) + half_width_text(difference, 4);
}

std::string scope_sentences(const ComparisonResult& result) {
  std::size_t runs = 0, failures = 0;
  for (const VariantResult& variant : result.variants) {
    runs += variant.runs.size();
    failures += variant.failures.size();
  }
  std::vector<std::string> seeds;
  for (const std::uint64_t seed : result.seeds) seeds.push_back(std::to_string(seed));
  std::string text = plural(result.variants.size(), "attention") + " on " + result.data;
  const SeedRange& range = result.question.seeds;
  const bool grown = seeds.size() > static_cast<std::size_t>(range.first);
  if (seeds.size() == 1) text += ", one seed (" + seeds[0] + ")";
  if (seeds.size() > 1) {
    text += ", " + std::string(grown ? "up to " : "") + plural(seeds.size(), "seed") + " each (" +
            list_text(seeds) + ")";
  }
  if (grown) text += ", more where " + std::to_string(range.first) + " did not decide";
  if (range.grows() && !grown)
    text += "; none needed more of at most " + std::to_string(range.last);
  text += ".";
  const std::size_t planned = grown ? runs + failures : result.variants.size() * seeds.size();
  if (runs == 0) {
    text += " No run finished, so there is nothing to compare.";
  } else if (runs < planned) {
    text += " Of " + plural(planned, "run") + ", " + count_text(static_cast<Index>(runs)) +
            " finished.";
  }
  if (failures > 0) text += " The failures are listed below.";
  if (!foreign_runs(result).empty())
    text +=
        " Some runs were trained by another build or machine, or shared it otherwise: see below.";
  return text;
}

// Sentences about the Pareto front of `variants`, which have finished runs; `all`: every attention
// of the comparison has a finished run.
std::string front_sentences(const std::vector<const VariantResult*>& variants, bool all) {
  std::vector<std::string> front;
  for (const VariantResult* variant : variants) {
    if (variant->pareto) front.push_back(variant->spec);
  }
  if (variants.size() < 2 || front.empty()) return "";
  if (front.size() == variants.size()) {
    return " All that finished are on the Pareto front of KV cache and mean loss: whichever has "
           "less cache has the higher loss.";
  }
  return " On the Pareto front of KV cache and mean loss " +
         std::string(front.size() == 1 ? "is " : "are ") + list_text(front) +
         "; every other attention " + (all ? "" : "that has a finished run ") +
         "is matched or beaten in both by " + (front.size() == 1 ? "it." : "one of these.");
}

std::string difference_sentences(const std::vector<const VariantResult*>& variants,
                                 const std::string& first) {
  std::vector<std::string> decided, open;
  const auto with_difference =
      std::ranges::count_if(variants, [](const auto* v) { return v->difference.has_value(); });
  const bool numbers = static_cast<std::size_t>(with_difference) <= kNumbersInText;
  for (const VariantResult* variant : variants) {
    if (!variant->difference) continue;
    const std::optional<bool> excluded = excludes_zero(*variant->difference);
    std::string amount = variant->spec;
    if (numbers) amount += " (" + difference_text(*variant->difference) + ")";
    if (excluded) (*excluded ? decided : open).push_back(amount);
  }
  std::string text;
  if (!decided.empty()) {
    text += " Seed by seed, the loss differs from that of " + first +
            ", with a 95\u00a0% interval that excludes zero, for " + list_text(decided) + ".";
  }
  if (!open.empty()) {
    text += " The data does not decide whether the loss differs from that of " + first + " for " +
            list_text(open) + ": the 95\u00a0% interval includes zero.";
  }
  return text;
}

std::string summary(const ComparisonResult& result) {
  const std::vector<const VariantResult*> variants = finished(result);
  std::string text = scope_sentences(result);
  if (variants.empty()) return text;
  text += front_sentences(variants, variants.size() == result.variants.size());
  if (!repeated(result)) {
    return text +
           " With one seed there are no intervals: nothing here tells which differences "
           "another seed would show too.";
  }
  return text + difference_sentences(variants, reference(result).spec);
}

std::vector<Column<VariantResult>> table_columns(const ComparisonResult& result) {
  using Variant = const VariantResult&;
  std::vector<std::string_view> keys = {"attention"};
  const auto add_if_any = [&](auto has, std::initializer_list<std::string_view> more) {
    if (std::ranges::any_of(result.variants, has)) keys.insert(keys.end(), more);
  };
  add_if_any([](Variant v) { return !v.adjusted.empty(); }, {"adjusted"});
  keys.insert(keys.end(), {"params", "kv_cache_bytes_per_token"});
  add_if_any([&](Variant v) { return v.runs.size() != result.seeds.size(); }, {"runs"});
  keys.insert(keys.end(), {"val_loss_mean", "excess_over_entropy"});
  add_if_any([](Variant v) { return v.difference.has_value(); }, {"paired_difference_mean"});
  if (result.question.metric == Metric::answers) keys.push_back("cost_median");
  add_if_any([&](Variant v) { return has_verdict(v, result); }, {"verdict"});
  keys.insert(keys.end(),
              {"bits_per_character", "answer_accuracy_mean", "train_tokens_per_second"});
  add_if_any([](Variant v) { return !v.decode.empty(); }, {"decode_tokens_per_second"});
  keys.push_back("pareto");
  return selected(comparison_columns(result, Reader::page), keys);
}

std::string results_table(const ComparisonResult& result) {
  std::string note = "Loss in nats per ";
  note += result.only_answers ? "answer" : "character";
  note += result.evaluated_characters > 0 ? " over the beginning of the validation split."
                                          : " over the whole validation split.";
  if (result.baseline_loss) {
    note += " The baseline, " + baseline_name(result) + ", has " +
            number_text(*result.baseline_loss, 4) + ".";
  }
  if (repeated(result) && result.question.intervals) {
    note +=
        " ± is the half width of a 95\u00a0% interval (Student t, over seeds); differences are "
        "between runs of the same seed";
    note +=
        result.question.seeds.grows()
            ? ", and their intervals hold however often seeds were looked at (repeated confidence "
              "intervals)."
            : ".";
    note +=
        " Intervals are not corrected for several comparisons: of twenty attentions that are "
        "equal, about one interval excludes zero by chance.";
  }
  std::vector<bool> front;
  for (const VariantResult& variant : result.variants)
    front.push_back(!variant.runs.empty() && variant.pareto);
  return html_table(cells_of(table_columns(result), result.variants), "Results", note, front);
}

std::string sweep_section(const ComparisonResult& result) {
  const std::vector<Column<VariantResult>> columns = sweep_columns(result, Reader::page);
  if (columns.empty()) return "";
  return "<h2>Sweep</h2>\n" +
         html_table(cells_of(columns, result.variants), "Sweep",
                    "Mean tuning loss over the first seeds; * marks the least.", {});
}

// Removes the chart from `charts` and returns its figure; empty if it is not there.
std::string take_figure(std::vector<ReportChart>& charts, std::string_view file) {
  const auto chart = std::ranges::find(charts, file, &ReportChart::file);
  if (chart == charts.end()) return "";
  const std::string drawn = figure(chart->svg, chart->caption);
  charts.erase(chart);
  return drawn;
}

// Top of the page, in columns on a wide screen: the verdict, the differences that it is read from,
// and the question's metric after conversions or against the cache. Removes these charts from
// `charts`.
std::string answer(const ComparisonResult& result, std::vector<ReportChart>& charts) {
  const std::string differences = take_figure(charts, "differences.svg");
  std::string against = take_figure(charts, "conversions.svg");
  if (against.empty()) {
    const bool answers = result.question.metric == Metric::answers;
    against = take_figure(charts, answers ? "answers_against_cache.svg" : "loss_against_cache.svg");
  }
  std::string notes;
  for (const std::string& note : verdict_notes(result))
    notes += "<p class=\"note\">" + xml_escaped(note) + "</p>\n";
  return "<div class=\"columns\">\n<p class=\"verdict\"><strong>Verdict:</strong> " +
         xml_escaped(verdict_text(result, Reader::page)) + "</p>\n" + differences + notes +
         element("p", summary(result)) + against + "</div>\n";
}

std::string chart_section(const std::vector<ReportChart>& charts) {
  if (charts.empty()) return "";
  std::string out = "<h2>Charts</h2>\n<div class=\"columns\">\n";
  for (const ReportChart& chart : charts) out += figure(chart.svg, chart.caption);
  return out + "</div>\n";
}

// A section with a list; empty without items.
std::string list_section(const std::string& heading, const std::vector<std::string>& items) {
  if (items.empty()) return "";
  std::string out = element("h2", heading) + "<ul>\n";
  for (const std::string& item : items) out += element("li", item);
  return out + "</ul>\n";
}

std::vector<std::string> failures(const ComparisonResult& result) {
  std::vector<std::string> all;
  for (const VariantResult& variant : result.variants) {
    for (const std::string& failure : variant.failures)
      all.push_back(variant.spec + ", " + failure);
  }
  return all;
}

std::string duration(double hours) {
  if (hours >= 1) return number_text(hours, 1) + " hours";
  return number_text(60 * hours, hours * 60 < 10 ? 1 : 0) + " minutes";
}

std::string origin(const ComparisonResult& result) {
  std::string out = "<h2>How to repeat it</h2>\n" + element("pre", result.command) + "<dl>\n";
  const auto entry = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) out += element("dt", name) + element("dd", value);
  };
  entry("Text", result.data);
  entry("SHA-256 of the text", result.data_sha256);
  entry("Context", plural(static_cast<std::size_t>(result.context), "token"));
  entry("Sizes matched", result.match == "none" ? "no" : result.match);
  entry("Swept", result.sweep);
  entry("Version", result.version);
  entry("Machine", result.machine);
  entry("Machine time", std::isfinite(result.hours) ? duration(result.hours) : "");
  return out + "</dl>\n<details>\n" + element("summary", "Settings that all attentions share") +
         element("pre", result.config.dump(2)) + "</details>\n";
}

}  // namespace

std::string comparison_report(const ComparisonResult& result, bool can_try) {
  std::vector<std::string> specs;
  for (const VariantResult& variant : result.variants) specs.push_back(variant.spec);
  const std::string title = specs.size() <= kNamedInTitle
                                ? "Attention compared: " + list_text(specs)
                                : plural(specs.size(), "attention") + " compared";
  std::vector<ReportChart> charts = comparison_charts(result);
  const std::string top =
      element("h1", title) + answer(result, charts) + (can_try ? try_link(result) : "");
  return page(title, top + "<h2>Results</h2>\n" + results_table(result) + sweep_section(result) +
                         chart_section(charts) + reading_figures(result) +
                         list_section("Failures", failures(result)) +
                         list_section("Notes", notes(result)) + origin(result));
}

}  // namespace headcount
