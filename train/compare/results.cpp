#include "train/compare/results.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>

#include "train/compare/statistics.h"

namespace headcount {

namespace {

// Losses of `variant` less those of `first`, over the seeds that both finished.
std::vector<double> paired_differences(const VariantResult& variant, const VariantResult& first) {
  std::vector<double> differences;
  for (const RunResult& run : variant.runs) {
    const auto same = std::ranges::find(first.runs, run.seed, &RunResult::seed);
    if (same != first.runs.end())
      differences.push_back(run.validation_loss - same->validation_loss);
  }
  return differences;
}

template <class Value>
std::vector<double> over_runs(const VariantResult& variant, const Value& value) {
  std::vector<double> values;
  for (const RunResult& run : variant.runs) values.push_back(value(run));
  return values;
}

bool dominates(const VariantResult& a, const VariantResult& b) {
  if (a.cache_bytes_per_token > b.cache_bytes_per_token || a.loss.mean > b.loss.mean) return false;
  return a.cache_bytes_per_token < b.cache_bytes_per_token || a.loss.mean < b.loss.mean;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <class... Numbers>
std::string formatted(const char* format, Numbers... numbers) {
  std::array<char, 80> text;
  std::snprintf(text.data(), text.size(), format, numbers...);
  return text.data();
}

std::string number(double value) { return formatted("%.17g", value); }

std::string with_interval(const Estimate& e, const char* mean_format, double unit = 1) {
  std::string text = formatted(mean_format, e.mean * unit);
  if (!e.half_width) return text;
  // The interval has the mean's decimals and no sign.
  std::string format = mean_format;
  std::erase(format, '+');
  return text + " +- " + formatted(format.c_str(), *e.half_width * unit);
}

bool excludes_zero(const Estimate& difference) {
  return difference.half_width && std::abs(difference.mean) > *difference.half_width;
}

// A column of a table: its heading for people, its name in CSV, and what it says of a variant that
// has finished runs.
struct Column {
  std::string heading, name;
  std::function<std::string(const VariantResult&)> text, csv;
};

std::vector<Column> columns(const ComparisonResult& result) {
  using V = const VariantResult&;
  const auto both = [](std::string heading, std::string name, std::function<std::string(V)> text) {
    return Column{std::move(heading), std::move(name), text, text};
  };
  const auto interval = [](const Estimate& e) {
    return number(e.mean) + "," + (e.half_width ? number(*e.half_width) : "");
  };
  std::vector<Column> all = {
      both("params", "params", [](V v) { return std::to_string(v.parameters); }),
      both("KV B/token", "kv_cache_bytes_per_token",
           [](V v) { return std::to_string(v.cache_bytes_per_token); }),
      {"val loss", "val_loss_mean,val_loss_ci95", [](V v) { return with_interval(v.loss, "%.4f"); },
       [=](V v) { return interval(v.loss); }}};
  if (result.entropy_per_character) {
    all.push_back(
        {"above floor", "excess_over_entropy",
         [e = *result.entropy_per_character](V v) { return formatted("%.4f", v.loss.mean - e); },
         [e = *result.entropy_per_character](V v) { return number(v.loss.mean - e); }});
  }
  const auto any_answers = [](V v) { return v.answer_accuracy.has_value(); };
  if (std::ranges::any_of(result.variants, any_answers)) {
    all.push_back({"answers right %", "answer_accuracy_mean,answer_accuracy_ci95",
                   [](V v) { return with_interval(*v.answer_accuracy, "%.1f", 100); },
                   [=](V v) { return interval(*v.answer_accuracy); }});
  }
  all.push_back({"minus " + result.variants.front().spec,
                 "paired_difference_mean,paired_difference_ci95",
                 [](V v) { return v.difference ? with_interval(*v.difference, "%+.4f") : "-"; },
                 [=](V v) { return v.difference ? interval(*v.difference) : std::string(","); }});
  const auto not_zero = [](V v) -> std::string {
    if (!v.difference || !v.difference->half_width) return "";
    return excludes_zero(*v.difference) ? "yes" : "no";
  };
  all.push_back({"not zero", "difference_excludes_zero",
                 [=](V v) { return not_zero(v).empty() ? "-" : not_zero(v); }, not_zero});
  all.push_back({"bits/char", "bits_per_character",
                 [](V v) { return formatted("%.4f", v.loss.mean / std::numbers::ln2); },
                 [](V v) { return number(v.loss.mean / std::numbers::ln2); }});
  all.push_back({"train tok/s", "train_tokens_per_second",
                 [](V v) -> std::string {
                   return v.train_tokens_per_second ? formatted("%.0f", *v.train_tokens_per_second)
                                                    : "-";
                 },
                 [](V v) -> std::string {
                   return v.train_tokens_per_second ? number(*v.train_tokens_per_second) : "";
                 }});
  all.push_back({"decode tok/s", "decode_tokens_per_second",
                 [](V v) { return formatted("%.0f", v.decode_tokens_per_second); },
                 [](V v) { return number(v.decode_tokens_per_second); }});
  all.push_back(both("Pareto", "pareto", [](V v) { return v.pareto ? "yes" : "no"; }));
  return all;
}

// Whether another program or machine trained it, so that its speed cannot be compared.
bool foreign(const RunResult& run, const ComparisonResult& result) {
  return run.version != result.version || run.machine != result.machine;
}

std::string label(const VariantResult& variant) {
  return variant.spec + (variant.adjusted.empty() ? "" : " (" + variant.adjusted + ")");
}

}  // namespace

void summarize(ComparisonResult& result, bool intervals) {
  const auto estimate_of = [&](const std::vector<double>& values) {
    Estimate e = estimate(values);
    if (!intervals) e.half_width.reset();
    return e;
  };
  for (VariantResult& v : result.variants) {
    if (v.runs.empty()) continue;
    const VariantResult& first = result.variants.front();
    v.loss = estimate_of(over_runs(v, [](const RunResult& r) { return r.validation_loss; }));
    if (&v != &first) {
      const std::vector<double> differences = paired_differences(v, first);
      if (!differences.empty()) v.difference = estimate_of(differences);
    }
    if (v.runs.front().answer_accuracy) {
      v.answer_accuracy = estimate_of(
          over_runs(v, [](const RunResult& r) { return r.answer_accuracy.value_or(0); }));
    }
    std::vector<double> speeds;
    for (const RunResult& run : v.runs) {
      if (!foreign(run, result)) speeds.push_back(run.train_tokens_per_second);
    }
    if (!speeds.empty()) v.train_tokens_per_second = median(speeds);
  }
  for (VariantResult& v : result.variants) {
    v.pareto = !v.runs.empty() && std::ranges::none_of(result.variants, [&](const auto& other) {
      return !other.runs.empty() && dominates(other, v);
    });
  }
}

std::vector<ForeignRuns> foreign_runs(const ComparisonResult& result) {
  std::vector<ForeignRuns> all;
  for (const VariantResult& variant : result.variants) {
    for (const RunResult& run : variant.runs) {
      if (!foreign(run, result)) continue;
      auto same = std::ranges::find_if(all, [&](const ForeignRuns& f) {
        return f.version == run.version && f.machine == run.machine;
      });
      if (same == all.end()) same = all.insert(all.end(), {run.version, run.machine, {}});
      same->runs.push_back(variant.spec + ", seed " + std::to_string(run.seed));
    }
  }
  return all;
}

std::vector<std::string> notes(const ComparisonResult& result) {
  std::vector<std::string> sentences;
  for (const ForeignRuns& foreign : foreign_runs(result)) {
    std::string runs;
    for (const std::string& run : foreign.runs) runs += (runs.empty() ? "" : "; ") + run;
    sentences.push_back("Trained earlier, by " + foreign.version + ", on " + foreign.machine +
                        ": " + runs + ". Their training speed is left out.");
  }
  return sentences;
}

std::string comparison_table(const ComparisonResult& result) {
  const std::vector<Column> all = columns(result);
  std::vector<std::vector<std::string>> rows = {{"attention"}};
  for (const Column& column : all) rows[0].push_back(column.heading);
  std::string failures;
  for (const VariantResult& v : result.variants) {
    std::vector<std::string>& row = rows.emplace_back(1, label(v));
    for (const Column& column : all) row.push_back(v.runs.empty() ? "-" : column.text(v));
    for (const std::string& failure : v.failures) failures += label(v) + ", " + failure + "\n";
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += row[0] + std::string(widths[0] - row[0].size(), ' ');
    for (std::size_t i = 1; i < row.size(); ++i)
      text += "  " + std::string(widths[i] - row[i].size(), ' ') + row[i];
    text += "\n";
  }
  text += failures;
  for (const std::string& note : notes(result)) text += note + "\n";
  return text;
}

std::string comparison_csv(const ComparisonResult& result) {
  const std::vector<Column> all = columns(result);
  std::string text = "attention,adjusted,runs";
  for (const Column& column : all) text += "," + column.name;
  text += "\r\n";
  for (const VariantResult& v : result.variants) {
    text += v.spec + ",\"" + v.adjusted + "\"," + std::to_string(v.runs.size());
    for (const Column& column : all) {
      // Some columns are two in CSV: their name has a comma in it.
      text += "," + (v.runs.empty() ? std::string(std::ranges::count(column.name, ','), ',')
                                    : column.csv(v));
    }
    text += "\r\n";
  }
  return text;
}

nlohmann::ordered_json comparison_json(const ComparisonResult& result) {
  using Json = nlohmann::ordered_json;
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json variants = Json::array();
  for (const VariantResult& v : result.variants) {
    const bool any = !v.runs.empty();
    const auto figure = [&](double value) { return any ? Json(value) : Json(); };
    Json decode = Json::array();
    for (const DecodeSpeed& d : v.decode)
      decode.push_back({{"context", d.context}, {"tokens_per_second", d.tokens_per_second}});
    Json seeds = Json::array();
    for (const RunResult& run : v.runs) seeds.push_back(run.seed);
    Json row = {
        {"spec", v.spec},
        {"adjusted", v.adjusted},
        {"params", v.parameters},
        {"kv_cache_bytes_per_token", v.cache_bytes_per_token},
        {"seeds", seeds},
        {"val_losses", over_runs(v, [](const RunResult& r) { return r.validation_loss; })},
        {"val_loss_mean", figure(v.loss.mean)},
        {"val_loss_ci95", optional(v.loss.half_width)},
        {"paired_difference_mean", v.difference ? Json(v.difference->mean) : Json()},
        {"paired_difference_ci95", v.difference ? optional(v.difference->half_width) : Json()},
        {"bits_per_character", figure(v.loss.mean / std::numbers::ln2)},
        {"train_tokens_per_second", optional(v.train_tokens_per_second)},
        {"decode_tokens_per_second", v.decode_tokens_per_second},
        {"decode", decode},
        {"pareto", v.pareto},
        {"failures", v.failures}};
    if (v.answer_accuracy) {
      row["answer_accuracy_mean"] = v.answer_accuracy->mean;
      row["answer_accuracy_ci95"] = optional(v.answer_accuracy->half_width);
    }
    variants.push_back(row);
  }
  Json others = Json::array();
  for (const ForeignRuns& foreign : foreign_runs(result)) {
    others.push_back(
        {{"version", foreign.version}, {"machine", foreign.machine}, {"runs", foreign.runs}});
  }
  return {{"data", result.data},
          {"data_sha256", result.data_sha256},
          {"entropy_per_character", optional(result.entropy_per_character)},
          {"seeds", result.seeds},
          {"match", result.match},
          {"sweep", result.sweep.empty() ? Json() : Json(result.sweep)},
          {"command", result.command},
          {"config", Json::parse(result.config)},
          {"machine", result.machine},
          {"version", result.version},
          {"machine_hours", result.hours},
          {"trained_by_others", others},
          {"notes", notes(result)},
          {"variants", variants}};
}

}  // namespace headcount
