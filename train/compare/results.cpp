#include "train/compare/results.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "train/compare/columns.h"
#include "train/compare/learned.h"
#include "train/formatted.h"
#include "train/statistics.h"

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

// Whether its speed says nothing about this program and machine.
bool foreign(const RunResult& run, const ComparisonResult& result) {
  return run.version != result.version || run.machine != result.machine;
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
  withhold_intervals_of_two_heaps(result);
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
  std::vector<std::string> sentences = two_heaps_notes(result);
  for (const ForeignRuns& foreign : foreign_runs(result)) {
    std::string runs;
    for (const std::string& run : foreign.runs) runs += (runs.empty() ? "" : "; ") + run;
    sentences.push_back("Trained earlier, by " + foreign.version + ", on " + foreign.machine +
                        ": " + runs + ". Their training speed is left out.");
  }
  return sentences;
}

std::string comparison_table(const ComparisonResult& result) {
  std::string text = text_table(
      selected(comparison_columns(result, Reader::terminal),
               {"attention", "params", "kv_cache_bytes_per_token", "val_loss_mean",
                "excess_over_entropy", "answer_accuracy_mean", "learned", "paired_difference_mean",
                "difference_excludes_zero", "bits_per_character", "train_tokens_per_second",
                "decode_tokens_per_second", "pareto"}),
      result.variants);
  for (const VariantResult& v : result.variants) {
    for (const std::string& failure : v.failures) text += v.label() + ", " + failure + "\n";
  }
  if (result.answer_chance) {
    text += formatted("answers: chance %.1f %%, ceiling 100 %%; learned: %.1f %% or more\n",
                      100 * *result.answer_chance, 100 * learned_from(*result.answer_chance));
  }
  for (const std::string& note : notes(result)) text += note + "\n";
  return text;
}

std::string comparison_csv(const ComparisonResult& result) {
  std::string text;
  for (const std::string& line :
       csv_lines(selected(comparison_columns(result, Reader::terminal),
                          {"attention", "adjusted", "runs", "params", "kv_cache_bytes_per_token",
                           "val_loss_mean", "val_loss_ci95", "excess_over_entropy",
                           "answer_accuracy_mean", "answer_accuracy_ci95", "learned",
                           "paired_difference_mean", "paired_difference_ci95",
                           "difference_excludes_zero", "bits_per_character",
                           "train_tokens_per_second", "decode_tokens_per_second", "pareto"}),
                 result.variants)) {
    text += line + "\r\n";
  }
  return text;
}

nlohmann::ordered_json comparison_json(const ComparisonResult& result) {
  using Json = nlohmann::ordered_json;
  Json others = Json::array();
  for (const ForeignRuns& foreign : foreign_runs(result)) {
    others.push_back(
        {{"version", foreign.version}, {"machine", foreign.machine}, {"runs", foreign.runs}});
  }
  const auto variants =
      selected(comparison_columns(result, Reader::terminal), {"spec",
                                                              "adjusted",
                                                              "params",
                                                              "kv_cache_bytes_per_token",
                                                              "seeds",
                                                              "val_losses",
                                                              "val_loss_mean",
                                                              "val_loss_ci95",
                                                              "paired_difference_mean",
                                                              "paired_difference_ci95",
                                                              "bits_per_character",
                                                              "train_tokens_per_second",
                                                              "decode_tokens_per_second",
                                                              "decode",
                                                              "pareto",
                                                              "failures",
                                                              "answer_accuracies",
                                                              "answer_accuracy_mean",
                                                              "answer_accuracy_ci95",
                                                              "learned"});
  return {{"data", result.data},
          {"data_sha256", result.data_sha256},
          {"entropy_per_character",
           result.entropy_per_character ? Json(*result.entropy_per_character) : Json()},
          {"answer_chance", result.answer_chance ? Json(*result.answer_chance) : Json()},
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
          {"variants", json_rows(variants, result.variants)}};
}

}  // namespace headcount
