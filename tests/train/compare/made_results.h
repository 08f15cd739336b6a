#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/compare/results.h"

/// Results of comparisons that nobody trained.
namespace headcount {

inline RunResult made_run(std::uint64_t seed, double loss, std::optional<double> answers = {}) {
  RunResult r;
  r.seed = seed;
  r.validation_loss = loss;
  r.answer_accuracy = answers;
  return r;
}

inline VariantResult made_variant(const std::string& spec, Index bytes,
                                  std::vector<RunResult> runs) {
  VariantResult v;
  v.spec = spec;
  v.cache_bytes_per_token = bytes;
  v.runs = std::move(runs);
  return v;
}

/// Seeds 1, 2, ... with these shares of right answers, all with a loss of 1.
inline VariantResult answering(const std::string& spec, Index bytes,
                               const std::vector<double>& answers) {
  std::vector<RunResult> runs;
  for (const double share : answers) runs.push_back(made_run(runs.size() + 1, 1, share));
  return made_variant(spec, bytes, std::move(runs));
}

/// mha, the reference, and three attentions by their losses with three seeds: mqa is enough, mla8+4
/// is not, gqa2 is open.
inline ComparisonResult decided_comparison() {
  ComparisonResult r;
  r.config = nlohmann::ordered_json::object();
  r.seeds = {1, 2, 3};
  const auto variant = [](const char* spec, Index bytes, const std::vector<double>& losses) {
    std::vector<RunResult> runs;
    for (const double loss : losses) runs.push_back(made_run(runs.size() + 1, loss));
    return made_variant(spec, bytes, std::move(runs));
  };
  r.variants = {
      variant("mla8+4", 96, {1.052, 1.053, 1.054}), variant("mqa", 256, {1.003, 1.004, 1.005}),
      variant("mha", 1024, {1.000, 1.001, 1.002}), variant("gqa2", 512, {1.000, 1.011, 1.006})};
  return r;
}

}  // namespace headcount
