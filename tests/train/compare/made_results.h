#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "train/compare/results.h"

/// Results of comparisons that nobody trained.
namespace headcount {

/// In place of a loss: a run that failed, and one that failed since it diverged.
constexpr double kFailedRun = std::numeric_limits<double>::quiet_NaN(),
                 kDivergedRun = std::numeric_limits<double>::infinity();

/// An attention by the losses of seeds 1, 2, ...
inline VariantResult losing(const std::string& spec, double bytes,
                            const std::vector<double>& losses) {
  VariantResult v;
  v.spec = spec;
  v.parameters = 1000;
  v.cache_bytes_per_token = bytes;
  for (std::uint64_t seed = 1; seed <= losses.size(); ++seed) {
    const double loss = losses[seed - 1];
    if (loss == kDivergedRun) v.diverged.push_back(seed);
    if (!std::isfinite(loss)) continue;
    RunResult& run = v.runs.emplace_back();
    run.seed = seed;
    run.validation_loss = loss;
  }
  return v;
}

/// An attention by its shares of right answers, all with a loss of 1.
inline VariantResult answering(const std::string& spec, double bytes,
                               const std::vector<double>& answers) {
  VariantResult v = losing(spec, bytes, std::vector<double>(answers.size(), 1));
  for (RunResult& run : v.runs) run.answer_accuracy = answers[run.seed - 1];
  return v;
}

/// A comparison with the first of these numbers of seeds.
inline ComparisonResult made_comparison(std::vector<VariantResult> variants,
                                        const SeedRange& seeds = {}, Metric metric = Metric::loss) {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.question.metric = metric;
  r.question.seeds = seeds;
  for (std::uint64_t seed = 1; static_cast<Index>(seed) <= seeds.first; ++seed)
    r.seeds.push_back(seed);
  r.variants = std::move(variants);
  return r;
}

inline ComparisonResult summarized(ComparisonResult result) {
  summarize(result);
  return result;
}

}  // namespace headcount
