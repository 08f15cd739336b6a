#include "train/compare/learned.h"

#include <algorithm>

#include "train/compare/verdict.h"
#include "train/formatted.h"

namespace headcount {

namespace {

bool bimodal(const VariantResult& variant, const ComparisonResult& result) {
  const std::optional<Index> learned = runs_that_learned(variant, result.answer_chance);
  return learned && *learned > 0 && *learned < std::ssize(variant.runs);
}

}  // namespace

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

void withhold_bimodal_intervals(ComparisonResult& result) {
  const bool all_differences = bimodal(reference(result), result);
  for (VariantResult& variant : result.variants) {
    const bool own = bimodal(variant, result);
    if (own) variant.loss.half_width.reset();
    if (own && variant.answer_accuracy) variant.answer_accuracy->half_width.reset();
    if (!own && !all_differences) continue;
    if (variant.difference) variant.difference->half_width.reset();
    if (variant.cost) variant.cost->half_width.reset();
    variant.verdict = Verdict::open;
  }
}

std::vector<std::string> bimodal_notes(const ComparisonResult& result) {
  std::vector<std::string> sentences;
  for (const VariantResult& variant : result.variants) {
    if (!bimodal(variant, result)) continue;
    std::string answers;
    for (const RunResult& run : variant.runs)
      answers += (answers.empty() ? "" : ", ") + formatted("%.1f", 100 * *run.answer_accuracy);
    sentences.push_back(
        formatted("%s: %td of %td seeds learned it (%s %% right), so its means have no interval.",
                  variant.spec.c_str(), *runs_that_learned(variant, result.answer_chance),
                  std::ssize(variant.runs), answers.c_str()));
  }
  return sentences;
}

}  // namespace headcount
