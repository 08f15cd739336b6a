#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/json.h"
#include "train/compare/premises.h"
#include "train/compare/results.h"
#include "train/compare/verdict.h"

namespace headcount {

namespace {

Json verdict_json(const ComparisonResult& result) {
  Question question = result.question;
  question.reference = reference(result).spec;
  question.tolerance = tolerance(result);
  const auto enough = cheapest_enough(result);
  Json json = {
      {"text", verdict_clauses(result)},
      {"enough", enough ? Json(enough->spec) : Json()},
      {"metric", std::ranges::find(kMetrics, question.metric, &Named<Metric>::second)->first},
      {"seeds", question.seeds.text()}};
  json.update(json_of(question));
  json["undecided"] = result.undecided.empty() ? Json() : Json(result.undecided);
  json["notes"] = verdict_notes(result);
  for (const std::string& note : statistics_notes(result)) json["notes"].push_back(note);
  return json;
}

Question read_question(const Json& verdict) {
  Question question;
  const auto metric = verdict.at("metric").get<std::string>();
  const auto known = std::ranges::find(kMetrics, metric, &Named<Metric>::first);
  if (known == std::end(kMetrics))
    throw DataError("its verdict has a metric unknown here, {}", metric);
  question.metric = known->second;
  question.seeds = SeedRange::parse(verdict.at("seeds").get<std::string>());
  read_from(verdict, question);
  return question;
}

ComparisonResult comparison_of(const Json& json) {
  if (json.value(Json::json_pointer("/variants/0/runs"), Json()).is_number())
    throw DataError("an earlier version wrote it, {}", json.value("version", ""));
  ComparisonResult result;
  read_from(json, result);
  result.question = read_question(json.at("verdict"));
  if (std::ranges::find(result.variants, result.question.reference, &VariantResult::spec) ==
      result.variants.end())
    throw DataError("its reference is none of its attentions");
  summarize(result);
  return result;
}

// Adds what follows from the runs to `object`, the JSON of `variant`.
void add_figures(Json& object, const VariantResult& variant, const ComparisonResult& result,
                 const std::vector<Column<VariantResult>>& columns) {
  for (const auto& column : columns) object[column.key] = column.value(variant);
  object["costs"] = json_of(variant.costs);
  if (may_overfit(variant, result)) object["may_overfit"] = true;
  for (Json& run : object["runs"]) {
    if (run.value("version", "") == result.version) run.erase("version");
    if (run.value("machine", "") == result.machine) run.erase("machine");
  }
}

}  // namespace

nlohmann::ordered_json comparison_json(const ComparisonResult& result) {
  Json json = {{"verdict", verdict_json(result)}};
  json.update(json_of(result));
  json["common_seeds"] = result.common_seeds;
  json["notes"] = notes(result);
  const auto columns = comparison_columns(result);
  for (std::size_t i = 0; i < result.variants.size(); ++i)
    add_figures(json["variants"][i], result.variants[i], result, columns);
  return json;
}

ComparisonResult read_results(const nlohmann::ordered_json& json) {
  try {
    return comparison_of(json);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("it holds no results of a comparison in this version's form: {}",
                    reason_of(error));
  } catch (const DataError& error) {
    throw DataError("it holds no results of a comparison in this version's form: {}", error.what());
  }
}

}  // namespace headcount
