#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/base/error.h"
#include "train/compare/premises.h"
#include "train/compare/result_files.h"
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

// Array with `make(item)` of each item.
template <class Items, class Make>
Json array_of(const Items& items, const Make& make) {
  Json all = Json::array();
  for (const auto& item : items) all.push_back(make(item));
  return all;
}

// Items made of the elements of the array `key` of `object`; none if it is absent or null.
template <class Make>
auto read_array(const Json& object, const char* key, const Make& make) {
  std::vector<decltype(make(Json()))> items;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return items;
  for (const Json& element : found->template get_ref<const Json::array_t&>())
    items.push_back(make(element));
  return items;
}

template <class Value>
Value value_or(const Json& object, const char* key, Value otherwise) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : found->get<Value>();
}

template <class Value>
std::optional<Value> optional_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return found->get<Value>();
}

// The estimate in the columns `name`_mean and `name`_ci95; none without a mean.
std::optional<Estimate> estimate_at(const Json& object, const std::string& name) {
  const auto mean = optional_at<double>(object, (name + "_mean").c_str());
  if (!mean) return std::nullopt;
  return Estimate{*mean, optional_at<double>(object, (name + "_ci95").c_str())};
}

// A cost; null for an infinite one, that of a run that did not learn.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json to_json(const RoundedCache& rounded) {
  const auto of_runs = [&](const auto& figure) {
    return array_of(rounded.runs, [&](const RoundedRun& run) { return Json(figure(run)); });
  };
  return {{"cache", rounded.cache},
          {"kv_cache_bytes_per_token", rounded.cache_bytes_per_token},
          {"seeds", of_runs([](const RoundedRun& run) { return run.seed; })},
          {"val_losses", of_runs([](const RoundedRun& run) { return or_null(run.loss); })},
          {"answer_accuracies",
           of_runs([](const RoundedRun& run) { return or_null(run.answer_accuracy); })},
          {"layers", rounded.layers}};
}

RoundedCache read_rounded(const Json& object) {
  RoundedCache rounded = {object.at("cache"), object.at("kv_cache_bytes_per_token")};
  const auto number = [](const Json& value) {
    return value.is_null() ? std::nullopt : std::optional(value.get<double>());
  };
  for (std::size_t i = 0; i < object.at("seeds").size(); ++i)
    rounded.runs.push_back({object.at("seeds")[i], number(object.at("val_losses")[i]),
                            number(object.at("answer_accuracies")[i])});
  rounded.layers = object.at("layers");
  return rounded;
}

// Arrays by seed, each with the figure of a run that it holds.
constexpr std::pair<const char*, const char*> kArrays[] = {
    {"val_losses", "val_loss"},
    {"losses_by_position", "loss_by_position"},
    {"losses_by_block", "loss_by_block"},
    {"answer_accuracies", "answer_accuracy"},
    {"answers_by_distance", "answers_by_distance"},
    {"steps_to_learn", "learned_at"},
    {"evaluations", "evaluations"},
    {"tuning_losses", "tuning_loss"},
    {"train_speeds", "train_tokens_per_second"},
    {"machine_seconds", "machine_seconds"}};

// Adds to `object` what each run of `variant` measured: arrays by seed.
void add_runs(Json& object, const VariantResult& variant) {
  const auto seed = [](const RunResult& run) { return run.seed; };
  const Json runs = array_of(variant.runs, [](const RunResult& run) { return to_json(run); });
  object["seeds"] = array_of(variant.runs, seed);
  for (const auto& [all, one] : kArrays) {
    const char* const figure = one;
    const auto has = [&](const Json& run) { return run.contains(figure); };
    if (runs.empty() || std::ranges::any_of(runs, has))
      object[all] = array_of(runs, [&](const Json& run) { return run.value(figure, Json()); });
  }
  object["curves"] = array_of(runs, [](const Json& run) -> Json {
    return {{"steps", run.at("curve_steps")}, {"losses", run.at("curve_losses")}};
  });
}

// Earlier versions wrote fewer of these arrays.
std::vector<RunResult> read_runs_of(const Json& object) {
  std::vector<RunResult> runs;
  for (std::size_t i = 0; i < object.at("seeds").size(); ++i) {
    Json run = Json::object();
    for (const auto& [all, one] : kArrays) {
      const auto found = object.find(all);
      if (found != object.end() && !found->at(i).is_null()) run[one] = found->at(i);
    }
    if (const auto curves = object.find("curves"); curves != object.end()) {
      run["curve_steps"] = curves->at(i).at("steps");
      run["curve_losses"] = curves->at(i).at("losses");
    }
    runs.push_back(run_result_from(run));
    runs.back().seed = object["seeds"][i];
  }
  return runs;
}

// Adds to `object`, the figures of a variant, what stands behind them.
void add_details(Json& object, const VariantResult& variant) {
  add_runs(object, variant);
  object["costs"] = array_of(variant.costs, [](const auto& of_seed) -> Json {
    return {{"seed", of_seed.first}, {"cost", finite_or_null(of_seed.second)}};
  });
  object["failures"] = variant.failures;
  object["diverged"] = variant.diverged;
  object["sweep"] = array_of(variant.swept, [](const SweptValue& swept) -> Json {
    return {{"value", swept.value}, {"loss", or_null(swept.loss)}, {"chosen", swept.chosen}};
  });
  object["cache"] = variant.cache;
  if (!variant.rounded.empty())
    object["rounded"] =
        array_of(variant.rounded, [](const RoundedCache& cache) { return to_json(cache); });
  object["notes"] = variant.notes;
  object["no_reading"] = variant.no_reading;
  object["reading"] = variant.reading;
}

VariantResult read_variant(const Json& object) {
  VariantResult variant;
  variant.spec = object.at("spec");
  variant.adjusted = object.at("adjusted");
  variant.parameters = object.at("params");
  variant.cache_bytes_per_token = object.at("kv_cache_bytes_per_token");
  variant.runs = read_runs_of(object);
  variant.loss = estimate_at(object, "val_loss").value_or(Estimate());
  variant.difference = estimate_at(object, "paired_difference");
  variant.cost = estimate_at(object, "cost");
  variant.answer_accuracy = estimate_at(object, "answer_accuracy");
  variant.costs = read_array(object, "costs", [](const Json& cost) {
    // An infinite cost, of a run that did not learn, is null.
    return std::pair(cost.at("seed").get<std::uint64_t>(), value_or(cost, "cost", kDivergedCost));
  });
  if (!variant.cost && !variant.costs.empty()) variant.cost = Estimate{kDivergedCost, {}};
  variant.verdict = read_verdict(value_or<std::string>(object, "verdict", "open"));
  variant.train_tokens_per_second = optional_at<double>(object, "train_tokens_per_second");
  variant.pareto = value_or(object, "pareto", false);
  variant.failures = value_or(object, "failures", std::vector<std::string>());
  variant.diverged = value_or(object, "diverged", std::vector<std::uint64_t>());
  variant.swept = read_array(object, "sweep", [](const Json& swept) {
    return SweptValue{swept.at("value"), optional_at<double>(swept, "loss"), swept.at("chosen")};
  });
  variant.cache = value_or(object, "cache", Json());
  variant.rounded = read_array(object, "rounded", read_rounded);
  variant.notes = value_or(object, "notes", std::vector<std::string>());
  variant.no_reading = value_or<std::string>(object, "no_reading", "");
  variant.reading = value_or(object, "reading", Json());
  return variant;
}

Json verdict_json(const ComparisonResult& result) {
  const VariantResult& than = reference(result);
  const std::optional<double> limit = tolerance(result);
  const auto enough = cheapest_enough(result);
  return {{"text", verdict_text(result)},
          {"enough", enough ? Json(enough->spec) : Json()},
          {"metric",
           std::ranges::find(kMetrics, result.question.metric, &Named<Metric>::second)->first},
          {"reference", than.spec},
          {"controls", result.question.controls},
          {"tolerance", or_null(limit)},
          {"seeds", result.question.seeds.text()},
          {"intervals", result.question.intervals},
          {"sensitivity", array_of(sensitivity(result),
                                   [](const AtTolerance& at) -> Json {
                                     return {{"percent", at.percent},
                                             {"tolerance", at.tolerance},
                                             {"enough", at.enough},
                                             {"not_enough", at.not_enough}};
                                   })},
          {"undecided", result.undecided.empty() ? Json() : Json(result.undecided)},
          {"notes", verdict_notes(result)}};
}

Question read_question(const Json& verdict) {
  Question question;
  const auto metric = verdict.at("metric").get<std::string>();
  const auto known = std::ranges::find(kMetrics, metric, &Named<Metric>::first);
  if (known == std::end(kMetrics))
    throw DataError("its verdict has a metric unknown here, ", metric);
  question.metric = known->second;
  question.reference = verdict.at("reference");
  question.controls = value_or(verdict, "controls", std::vector<std::string>());
  question.tolerance = optional_at<double>(verdict, "tolerance");
  question.seeds = SeedRange::parse(verdict.at("seeds").get<std::string>());
  question.intervals = value_or(verdict, "intervals", true);
  return question;
}

ComparisonResult comparison_of(const Json& json) {
  ComparisonResult result;
  result.command = json.at("command");
  result.data = json.at("data");
  result.data_sha256 = json.at("data_sha256");
  result.seeds = json.at("seeds").get<std::vector<std::uint64_t>>();
  result.common_seeds = json.at("common_seeds").get<std::vector<std::uint64_t>>();
  result.question = read_question(json.at("verdict"));
  result.undecided = value_or<std::string>(json.at("verdict"), "undecided", "");
  result.match = json.at("match");
  result.sweep = value_or<std::string>(json, "sweep", "");
  result.config = json.at("config");
  result.context = value_or(json, "context", value_or<Index>(result.config, "context", 0));
  result.entropy_per_character = optional_at<double>(json, "entropy_per_character");
  result.longest_story = value_or<Index>(json, "longest_story", 0);
  result.evaluated_characters = value_or<Index>(json, "evaluated_characters", 0);
  result.rounded_characters = value_or<Index>(json, "rounded_characters", 0);
  result.variants = read_array(json, "variants", read_variant);
  result.only_answers =
      value_or(json, "only_answers", !json.at("variants").at(0).contains("bits_per_character"));
  if (const Json shares = value_or(json, "answer_baselines", Json()); !shares.is_null()) {
    result.baselines = {shares.at("guesser"), shares.at("copier"), shares.at("commonest")};
    result.answer_chance = result.baselines->best();
  }
  result.baseline_loss = optional_at<double>(json, "baseline_loss");
  result.steps = value_or<Index>(json, "steps", 0);
  result.too_long_warmup = value_or<Index>(json, "too_long_warmup", 0);
  result.machine = json.at("machine");
  result.version = json.at("version");
  result.failed_runs = value_or<Index>(json, "failed_runs", 0);
  result.diverged_runs = value_or<Index>(json, "diverged_runs", 0);
  result.hours = json.at("machine_hours");
  result.passage = value_or(json, "passage", Json());
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
  const auto columns = columns_for_programs(result, "spec");
  std::string text;
  for (const std::string& line : csv_lines(columns, result.variants)) text += line + "\r\n";
  return text;
}

nlohmann::ordered_json comparison_json(const ComparisonResult& result) {
  Json variants = json_rows(columns_for_programs(result, "attention"), result.variants);
  for (std::size_t i = 0; i < result.variants.size(); ++i)
    add_details(variants[i], result.variants[i]);
  return {{"data", result.data},
          {"data_sha256", result.data_sha256},
          {"context", result.context},
          {"steps", result.steps},
          {"too_long_warmup", result.too_long_warmup},
          {"longest_story", result.longest_story},
          {"evaluated_characters", result.evaluated_characters},
          {"rounded_characters", result.rounded_characters},
          {"only_answers", result.only_answers},
          {"entropy_per_character", or_null(result.entropy_per_character)},
          {"answer_baselines", result.baselines ? to_json(*result.baselines) : Json()},
          {"baseline_loss", or_null(result.baseline_loss)},
          {"seeds", result.seeds},
          {"common_seeds", result.common_seeds},
          {"verdict", verdict_json(result)},
          {"match", result.match},
          {"sweep", result.sweep.empty() ? Json() : Json(result.sweep)},
          {"command", result.command},
          {"config", result.config},
          {"machine", result.machine},
          {"version", result.version},
          {"machine_hours", result.hours},
          {"failed_runs", result.failed_runs},
          {"diverged_runs", result.diverged_runs},
          {"notes", notes(result)},
          {"variants", variants},
          {"passage", result.passage}};
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
    throw DataError("it holds no results of a comparison: ", error.what());
  }
}

}  // namespace headcount
