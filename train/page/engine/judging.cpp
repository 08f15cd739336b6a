#include <algorithm>

#include "train/compare/results.h"
#include "train/compare/verdict.h"
#include "train/page/engine/replies.h"

namespace headcount::page {

namespace {

constexpr SeedRange kSeeds = {5, 5};  // a page trains so many, one after another

VariantResult variant_of(const nlohmann::json& run, bool answered) {
  VariantResult variant;
  variant.spec = run.at("spec");
  variant.cache_bytes_per_token = run.at("bytes");
  for (const nlohmann::json& seed : run.at("seeds")) {
    if (seed.value("diverged", false)) {
      variant.diverged.push_back(seed.at("seed"));
      continue;
    }
    RunResult& result = variant.runs.emplace_back();
    result.seed = seed.at("seed");
    result.validation_loss = seed.at("loss");
    for (const nlohmann::json& check : seed.value("checks", nlohmann::json::array())) {
      EvaluationAt& at = result.evaluations.emplace_back();
      at.step = check.at("step");
      at.loss = check.at("loss");
      if (answered) at.answers = check.at("answers").get<double>();
    }
    if (!answered) continue;
    result.answer_accuracy = seed.at("answers").get<double>();
    result.answers_by_distance.emplace_back().asked = seed.at("questions");
    if (result.evaluations.empty()) result.evaluations.emplace_back().step = seed.at("step");
    if (const Index learned = seed.value("learned", Index{0}); learned > 0)
      result.learned_at = learned;
  }
  return variant;
}

}  // namespace

Json judge(const nlohmann::json& request) {
  const nlohmann::json baselines = request.value("baselines", nlohmann::json());
  ComparisonResult result;
  result.steps = request.value("steps", Index{0});
  result.question.metric = baselines.is_null() ? Metric::loss
                           : result.steps > 0  ? Metric::steps
                                               : Metric::answers;
  result.question.seeds = kSeeds;
  if (!baselines.is_null()) read_from(Json(baselines), result.baselines.emplace());
  for (const nlohmann::json& run : request.at("runs"))
    result.variants.push_back(variant_of(run, !baselines.is_null()));
  // Losses have one interval, which holds when all seeds are there.
  const auto is_short = [](const VariantResult& variant) {
    return std::ssize(variant.runs) + std::ssize(variant.diverged) < kSeeds.first;
  };
  if (baselines.is_null() && std::ranges::any_of(result.variants, is_short))
    return {{"verdicts", Json::array()}};
  summarize(result);
  return {{"verdicts", verdict_clauses(result)}};
}

}  // namespace headcount::page
