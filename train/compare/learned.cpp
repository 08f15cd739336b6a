#include "train/compare/learned.h"

#include <algorithm>

#include "train/compare/verdict.h"
#include "train/formatted.h"

namespace headcount {

double learned_from(double chance) {
  constexpr double kShare = 0.9;
  return chance + kShare * (1 - chance);
}

namespace {

Index learned(std::span<const RunResult> runs, double chance) {
  return std::ranges::count_if(runs, [&](const RunResult& run) {
    return run.answer_accuracy.value_or(0) >= learned_from(chance);
  });
}

// The runs of `all` whose seeds `some` has reached.
std::vector<RunResult> up_to_the_seeds_of(std::span<const RunResult> some,
                                          std::span<const RunResult> all) {
  std::uint64_t last = 0;
  for (const RunResult& run : some) last = std::max(last, run.seed);
  std::vector<RunResult> reached;
  std::ranges::copy_if(all, std::back_inserter(reached),
                       [last](const RunResult& run) { return run.seed <= last; });
  return reached;
}

}  // namespace

std::optional<Index> runs_that_learned(const VariantResult& variant, std::optional<double> chance) {
  if (!chance) return std::nullopt;
  return learned(variant.runs, *chance);
}

bool is_bimodal(std::span<const RunResult> runs, std::optional<double> chance) {
  if (!chance) return false;
  const Index count = learned(runs, *chance);
  return count > 0 && count < std::ssize(runs);
}

void withhold_bimodal_intervals(ComparisonResult& result) {
  const std::vector<RunResult> references = reference(result).runs;
  for (VariantResult& variant : result.variants) {
    const bool own = is_bimodal(variant.runs, result.answer_chance);
    const bool of_reference =
        is_bimodal(up_to_the_seeds_of(variant.runs, references), result.answer_chance);
    if (own) variant.loss.half_width.reset();
    if (own && variant.answer_accuracy) variant.answer_accuracy->half_width.reset();
    if (!own && !of_reference) continue;
    if (variant.difference) variant.difference->half_width.reset();
    if (variant.cost) variant.cost->half_width.reset();
    variant.verdict = Verdict::open;
  }
}

std::vector<std::string> bimodal_notes(const ComparisonResult& result) {
  std::vector<std::string> sentences;
  for (const VariantResult& variant : result.variants) {
    if (!is_bimodal(variant.runs, result.answer_chance)) continue;
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
