#include "train/compare/learned.h"

#include <algorithm>

namespace headcount {

double learned_from(double chance) {
  constexpr double kShare = 0.9;
  return chance + kShare * (1 - chance);
}

std::optional<Index> runs_that_learned(const VariantResult& variant, std::optional<double> chance) {
  if (!chance) return std::nullopt;
  return std::ranges::count_if(variant.runs, [&](const RunResult& run) {
    return run.answer_accuracy.value_or(0) >= learned_from(*chance);
  });
}

}  // namespace headcount
