#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/base/json.h"
#include "train/compare/premises.h"
#include "train/compare/results.h"
#include "train/compare/verdict.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

// Columns of each attention for programs, but that of its name under the key `other`.
std::vector<Column<VariantResult>> columns_for_programs(const ComparisonResult& result,
                                                        std::string_view other) {
  std::vector<Column<VariantResult>> columns = comparison_columns(result);
  std::erase_if(columns, [&](const auto& column) { return column.key == other; });
  return columns;
}

// Arrays by seed, each with the figure of a run that it holds.
constexpr std::pair<const char*, const char*> kByRun[] = {
    {"seeds", "seed"},
    {"val_losses", "val_loss"},
    {"losses_by_position", "loss_by_position"},
    {"losses_by_block", "loss_by_block"},
    {"answer_accuracies", "answer_accuracy"},
    {"answers_by_distance", "answers_by_distance"},
    {"answers_by_direction", "answers_by_direction"},
    {"steps_to_learn", "learned_at"},
    {"evaluations", "evaluations"},
    {"tuning_losses", "tuning_loss"},
    {"train_speeds", "train_tokens_per_second"},
    {"machine_seconds", "machine_seconds"},
    {"curves", "curve"}};

// Adds to `object`, the figures of a variant, what stands behind them.
void add_details(Json& object, const VariantResult& variant) {
  Json runs = json_of(variant.runs);
  for (Json& run : runs)
    run["curve"] = {{"steps", run["curve_steps"]}, {"losses", run["curve_losses"]}};
  const Json columns = columns_of(runs, kByRun);
  for (const auto& [key, column] : columns.items())
    if (runs.empty() || !column.empty()) object[key] = column;
  object.update(json_of(variant));
}

// The estimate in the columns `name`_mean and `name`_ci95; none without a mean.
std::optional<Estimate> estimate_at(const Json& object, const std::string& name) {
  const auto number = [&](const std::string& key) {
    const Json value = object.value(key, Json());
    return value.is_null() ? std::nullopt : std::optional(value.get<double>());
  };
  const auto mean = number(name + "_mean");
  return mean ? std::optional(Estimate{*mean, number(name + "_ci95")}) : std::nullopt;
}

// Earlier versions wrote fewer of the arrays.
VariantResult read_variant(const Json& object) {
  VariantResult variant;
  for (const char* key : {"spec", "adjusted", "params", "kv_cache_bytes_per_token"})
    (void)object.at(key);  // throws if it is missing: columns may be, these may not
  read_from(object, variant);
  Json runs = rows_of(object, kByRun);
  for (Json& run : runs) {
    if (!run.contains("curve")) continue;
    run["curve_steps"] = run["curve"].at("steps");
    run["curve_losses"] = run["curve"].at("losses");
  }
  read_from(runs, variant.runs);
  variant.loss = estimate_at(object, "val_loss").value_or(Estimate());
  variant.difference = estimate_at(object, "paired_difference");
  variant.cost = estimate_at(object, "cost");
  variant.answer_accuracy = estimate_at(object, "answer_accuracy");
  if (!variant.cost && !variant.costs.empty()) variant.cost = Estimate{kDivergedCost, {}};
  if (const Json word = object.value("verdict", Json()); word.is_string())
    variant.verdict = read_verdict(word.get<std::string>());
  return variant;
}

Json verdict_json(const ComparisonResult& result) {
  Question question = result.question;
  question.reference = reference(result).spec;
  question.tolerance = tolerance(result);
  const auto enough = cheapest_enough(result);
  Json json = {
      {"text", verdict_text(result)},
      {"enough", enough ? Json(enough->spec) : Json()},
      {"metric", std::ranges::find(kMetrics, question.metric, &Named<Metric>::second)->first},
      {"seeds", question.seeds.text()}};
  json.update(json_of(question));
  json["sensitivity"] = json_of(sensitivity(result));
  json["undecided"] = result.undecided.empty() ? Json() : Json(result.undecided);
  json["notes"] = verdict_notes(result);
  return json;
}

void read_verdict(const Json& verdict, ComparisonResult& result) {
  Question& question = result.question;
  const auto metric = verdict.at("metric").get<std::string>();
  const auto known = std::ranges::find(kMetrics, metric, &Named<Metric>::first);
  if (known == std::end(kMetrics))
    throw DataError("its verdict has a metric unknown here, {}", metric);
  question.metric = known->second;
  question.seeds = SeedRange::parse(verdict.at("seeds").get<std::string>());
  read_from(verdict, question);
  if (const Json why = verdict.value("undecided", Json()); why.is_string()) result.undecided = why;
}

ComparisonResult comparison_of(const Json& json) {
  ComparisonResult result;
  read_from(json, result);
  read_verdict(json.at("verdict"), result);
  for (const Json& variant : json.at("variants")) result.variants.push_back(read_variant(variant));
  if (!json.contains("context")) result.context = result.config.value("context", Index{0});
  if (!json.contains("only_answers"))
    result.only_answers = !json.at("variants").at(0).contains("bits_per_character");
  if (result.baselines) result.answer_chance = result.baselines->best();
  if (std::ranges::find(result.variants, result.question.reference, &VariantResult::spec) ==
      result.variants.end())
    throw DataError("its reference is none of its attentions");
  return result;
}

// JSON with one line for each value but arrays of numbers or words, which have one line each.
void write_lines(const Json& json, std::size_t indent, std::string& text) {
  const auto nested = [](const Json& element) { return element.is_structured(); };
  if (json.empty() || !json.is_structured() ||
      (json.is_array() && std::ranges::none_of(json, nested))) {
    text += json.dump();
    return;
  }
  const std::string line = "\n" + std::string(indent + 2, ' ');
  text += json.is_array() ? '[' : '{';
  bool first = true;
  for (const auto& [key, value] : json.items()) {
    text += (first ? "" : ",") + line;
    if (json.is_object()) text += Json(key).dump() + ": ";
    write_lines(value, indent + 2, text);
    first = false;
  }
  text += line.substr(0, line.size() - 2) + (json.is_array() ? ']' : '}');
}

}  // namespace

std::string comparison_csv(const ComparisonResult& result) {
  return csv_table(columns_for_programs(result, "spec"), result.variants);
}

nlohmann::ordered_json comparison_json(const ComparisonResult& result) {
  Json variants = json_rows(columns_for_programs(result, "attention"), result.variants);
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    add_details(variants[i], result.variants[i]);
    if (may_overfit(result.variants[i], result)) variants[i]["may_overfit"] = true;
  }
  Json json = {{"verdict", verdict_json(result)}};
  json.update(json_of(result));
  if (result.sweep.empty()) json["sweep"] = nullptr;
  json["notes"] = notes(result);
  json["variants"] = std::move(variants);
  return json;
}

std::string results_text(const nlohmann::ordered_json& json) {
  std::string text;
  write_lines(json, 0, text);
  return text + "\n";
}

ComparisonResult read_results(const nlohmann::ordered_json& json) {
  try {
    return comparison_of(json);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("it holds no results of a comparison: {}", reason_of(error));
  } catch (const DataError& error) {
    throw DataError("it holds no results of a comparison: {}", error.what());
  }
}

}  // namespace headcount
