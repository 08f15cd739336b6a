#include "train/compare/results.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "autograd/base/text.h"
#include "train/compare/premises.h"
#include "train/compare/rounded.h"
#include "train/compare/verdict.h"
#include "train/show/statistics.h"
#include "train/show/units.h"

namespace headcount {

namespace {

std::vector<std::uint64_t> finished_by_all(std::span<const VariantResult> variants) {
  const auto finished = [](const VariantResult& v) { return !v.runs.empty(); };
  const auto first = std::ranges::find_if(variants, finished);
  std::vector<std::uint64_t> seeds;
  for (std::size_t i = 0; first != variants.end() && i < first->runs.size(); ++i) {
    const std::uint64_t seed = first->runs[i].seed;
    const bool by_all = std::ranges::all_of(variants, [&](const VariantResult& v) {
      return v.runs.empty() || std::ranges::find(v.runs, seed, &RunResult::seed) != v.runs.end();
    });
    if (by_all) seeds.push_back(seed);
  }
  return seeds;
}

// Values of the runs on the common seeds or, if there are none, of all runs of the variant.
template <class Value>
std::vector<double> over_runs(const VariantResult& variant, std::span<const std::uint64_t> common,
                              const Value& value) {
  std::vector<double> values;
  for (const RunResult& run : variant.runs) {
    if (common.empty() || std::ranges::find(common, run.seed) != common.end())
      values.push_back(value(run));
  }
  return values;
}

// Returns true if another program or machine trained the run, so that its speed cannot be compared.
bool foreign(const RunResult& run, const ComparisonResult& result) {
  const auto differs = [](const std::string& own, const std::string& of_all) {
    return !own.empty() && own != of_all;
  };
  return differs(run.version, result.version) || differs(run.machine, result.machine);
}

// Fills in costs and differences of `v` against the reference.
void compare_with_reference(VariantResult& v, const ComparisonResult& result, const Judge& judge) {
  const VariantResult& than = reference(result);
  const Question& question = result.question;
  v.costs = paired_costs(v.runs, than.runs, question.metric);
  if (v.costs.empty()) return;
  v.cost = judge.interval(values_of(v.costs));
  v.difference = judge.interval(values_of(paired_costs(v.runs, than.runs, Metric::loss)));
  if (!question.intervals) v.difference->half_width.reset();
  if (!question.intervals || question.metric != Metric::loss) v.cost->half_width.reset();
}

// Fills in the verdicts, or the reason why all are open.
void judge_all(ComparisonResult& result, const Judge& judge) {
  if (result.variants.empty()) return;
  const VariantResult& than = reference(result);
  const std::optional<double> limit = tolerance(result);
  result.undecided = limit ? why_undecided(result, *limit) : "";
  if (result.undecided.empty()) result.undecided = why_beaten(result);
  if (!result.question.intervals || !result.undecided.empty()) return;
  for (VariantResult& v : result.variants) {
    if (&v != &than) v.verdict = judge.verdict(deciding_costs(v, than), limit);
  }
  result.undecided = why_control_passes(result);
  for (VariantResult& v : result.variants) {
    if (!result.undecided.empty()) v.verdict = Verdict::open;
    if (v.verdict == Verdict::not_enough && result.question.metric == Metric::steps && !learns(v))
      v.verdict = Verdict::not_learned;
  }
}

}  // namespace

void summarize(ComparisonResult& result) {
  const Question& question = result.question;
  const Judge judge(question.metric, question.seeds);
  result.common_seeds = finished_by_all(result.variants);
  for (VariantResult& v : result.variants) {
    if (&v != &reference(result)) compare_with_reference(v, result, judge);
  }
  judge_all(result, judge);
  for (VariantResult& v : result.variants) {
    if (v.runs.empty()) continue;
    const auto mean = [&](const auto& value) {
      Estimate e = estimate(over_runs(v, result.common_seeds, value));
      if (!question.intervals) e.half_width.reset();
      return e;
    };
    v.loss = mean([](const RunResult& r) { return r.validation_loss; });
    if (v.runs.front().answer_accuracy)
      v.answer_accuracy = mean([](const RunResult& r) { return r.answer_accuracy.value_or(0); });
    std::vector<double> speeds;
    for (const RunResult& run : v.runs) {
      if (!foreign(run, result) && run.train_tokens_per_second > 0)
        speeds.push_back(run.train_tokens_per_second);
    }
    if (!speeds.empty()) v.train_tokens_per_second = median(speeds);
  }
}

std::vector<std::string> notes(const ComparisonResult& result) {
  std::vector<std::string> sentences;
  if (const std::string cut = cut_stories_note(result.longest_story, result.context); !cut.empty())
    sentences.push_back(cut);
  if (result.evaluated_characters > 0 && result.question.metric != Metric::steps) {
    sentences.push_back("Evaluated on the first " + std::to_string(result.evaluated_characters) +
                        " characters of the validation part, as `eval-characters` says.");
  }
  if (result.rounded_characters > 0) {
    sentences.push_back("Rounded caches are evaluated on the first " +
                        std::to_string(result.rounded_characters) +
                        " characters of the validation part, as `cache-characters` says.");
  }
  for (const VariantResult& variant : result.variants) {
    for (const std::string& note : variant.notes)
      sentences.push_back(variant.spec + ": " + note + ".");
    if (!variant.no_reading.empty())
      sentences.push_back(variant.spec + " has no reading of the passage: " + variant.no_reading +
                          ".");
  }
  std::size_t listed = 0;
  for (const VariantResult& variant : result.variants) listed += variant.failures.size();
  if (const auto failed = static_cast<std::size_t>(result.failed_runs); failed > listed)
    sentences.push_back(counted(static_cast<Index>(failed - listed), "run") +
                        " at values that the sweep did not choose failed.");
  return sentences;
}

namespace {

// Columns of a table for people, in its order; those that a newcomer reads, unless `all`.
std::vector<Column<VariantResult>> shown_columns(const ComparisonResult& result, bool all) {
  const Metric metric = result.question.metric;
  const bool steps = metric == Metric::steps, losses = !steps && (all || metric == Metric::loss);
  const std::size_t seeds = result.seeds.size();
  const bool seeds_differ =
      std::ranges::any_of(result.variants, [&](const auto& v) { return v.runs.size() != seeds; });
  const std::pair<std::string_view, bool> keys[] = {
      {"spec", true},
      {"params", all},
      {"kv_cache_bytes_per_token", true},
      {"seeds", seeds_differ},
      {"steps_to_learn_median", steps},
      {"val_loss_mean", losses},
      {"excess_over_entropy", all && !steps},
      {"answer_accuracy_mean", !steps},
      {"learned", !steps},
      {"paired_difference_mean", losses},
      {"paired_difference_text_ci95", all && !steps},
      {"steps_to_reference_loss_median", all && !steps},
      {"cost_median", metric != Metric::loss},
      {"verdict", true},
      {"bits_per_character", all},
      {"train_tokens_per_second", all}};
  const auto columns = comparison_columns(result);
  std::vector<Column<VariantResult>> chosen;
  for (const auto& [key, shown] : keys)
    std::ranges::copy_if(
        columns, std::back_inserter(chosen),
        [key = key, shown = shown](const auto& column) { return shown && column.key == key; });
  return chosen;
}

// What a layer keeps of a token, from its parts in cache_layers: "4 keys and 4 values of 8
// numbers"; empty for nothing, and for rows that stand for several tokens.
std::string kept_text(const Json& parts) {
  std::map<std::string, Json> rows;  // by part
  for (const Json& part : parts) {
    if (part.value("block", 0) > 0) return "";
    if (!part.value("per_sequence", false)) rows[part.at("name")] = part;
  }
  if (rows.empty()) return "";
  const auto window = rows.begin()->second.value("window", std::int64_t{0});
  const std::string end = window > 0 ? ", of the last " + counted(window, "token") : "";
  const auto is_alike = [&](const char* size) { return rows["k"].at(size) == rows["v"].at(size); };
  if (rows.contains("k") && rows.contains("v") && is_alike("heads") && is_alike("width")) {
    const auto heads = rows["k"].at("heads").get<std::int64_t>();
    return counted(heads, "key") + " and " + counted(heads, "value") + " of " +
           rows["k"].at("width").dump() + " numbers" + end;
  }
  std::vector<std::string> names;
  for (const auto& [name, row] : rows)
    names.push_back(
        std::to_string(row.at("heads").get<std::int64_t>() * row.at("width").get<std::int64_t>()) +
        " numbers of " + name);
  return list_text(names) + end;
}

// Whether a table has all columns: with any width, and as Markdown, which no terminal shows.
bool has_all(Format format, std::size_t width) { return format != Format::text || width == 0; }

}  // namespace

std::string text_name(const ComparisonResult& result) {
  return result.data.substr(result.data.rfind('/') + 1);
}

std::string caches_sentence(const ComparisonResult& result) {
  constexpr std::size_t kMostTold = 6;
  if (result.variants.size() > kMostTold) return "";
  std::vector<std::pair<std::string, std::vector<std::string>>> by_text;
  for (const VariantResult& variant : result.variants) {
    if (!variant.cache.is_array() || variant.cache.empty()) return "";
    const std::string text = kept_text(variant.cache.front());
    const auto same = [&](const Json& layer) { return kept_text(layer) == text; };
    if (text.empty() || !std::ranges::all_of(variant.cache, same)) return "";
    auto found = std::ranges::find(by_text, text, [](const auto& each) { return each.first; });
    if (found == by_text.end()) found = by_text.insert(found, {text, {}});
    found->second.push_back(variant.spec);
  }
  std::string all;
  for (const auto& [text, specs] : by_text)
    all += (all.empty() ? "Of each token, a layer of " : "; one of ") + list_text(specs) +
           " caches " + text;
  return all.empty() ? "" : all + ".";
}

std::vector<TextColumn> usual_columns(const ComparisonResult& result) {
  return worded(shown_columns(result, false), result.variants);
}

std::string results_table(const ComparisonResult& result, Format format, std::size_t width) {
  if (format == Format::json) return comparison_json(result).dump() + "\n";
  if (format == Format::csv) return csv_table(comparison_columns(result), result.variants);
  const bool all = has_all(format, width);
  std::vector<Column<VariantResult>> columns = shown_columns(result, all);
  if (!all) columns.front().heading = text_name(result) + "\n" + columns.front().heading;
  std::string text = text_table(columns, result.variants, format, all ? 0 : width, {"cost_median"});
  if (format == Format::markdown) text += '\n';
  const auto add = [&](const std::string& line) { text += wrapped(line, all ? 0 : width) + '\n'; };
  for (const VariantResult& v : result.variants)
    for (const std::string& failure : v.failures) add(v.label() + ", " + failure);
  const bool steps = result.question.metric == Metric::steps;
  if (result.baselines || steps)
    add("learned: " + learned_text(result) +
        (result.baselines ? " (" + baselines_text(*result.baselines) + ")" : ""));
  if (result.baseline_loss && (all || !steps))
    add(formatted("loss by %s: %.4f nats", baseline_name(result).c_str(), *result.baseline_loss));
  if (const std::string rounded = rounded_table(result, format, width); !rounded.empty())
    text += '\n' + rounded + '\n';
  if (const auto sweep = sweep_columns(result); !sweep.empty())
    text += text_table(sweep, result.variants, format);
  return text;
}

std::string comparison_table(const ComparisonResult& result, Format format, std::size_t width) {
  std::string text = results_table(result, format, width);
  const bool all = has_all(format, width);
  const char* const end = format == Format::markdown ? "\n\n" : "\n";
  std::vector<std::string> caches = {caches_sentence(result)};
  if (caches.front().empty()) caches.clear();
  for (const auto& sentences : {caches, notes(result), verdict_notes(result),
                                all ? statistics_notes(result) : std::vector<std::string>()}) {
    for (const std::string& sentence : sentences) text += wrapped(sentence, all ? 0 : width) + end;
  }
  return text;
}

}  // namespace headcount
