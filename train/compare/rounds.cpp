#include "train/compare/rounds.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "train/compare/premises.h"
#include "train/compare/verdict.h"
#include "train/run/place.h"

namespace headcount {

Rounds::Rounds(const std::vector<PlannedVariant>& variants, ComparisonResult facts,
               const std::filesystem::path& folder, const std::string& command)
    : variants_(variants),
      facts_(std::move(facts)),
      reference_(static_cast<std::size_t>(
          std::ranges::find(variants, facts_.question.reference, &PlannedVariant::spec) -
          variants.begin())),
      first_(static_cast<std::size_t>(facts_.question.seeds.first)),
      last_(static_cast<std::size_t>(facts_.question.seeds.last)),
      judge_(facts_.question.metric, facts_.question.seeds) {
  for (const PlannedVariant& variant : variants) {
    first_run_.push_back(runs_.size());
    for (const Candidate& candidate : variant.candidates) {
      for (std::size_t seed = 1; seed <= last_; ++seed) {
        const std::string number = std::to_string(seed);
        RunPlan& run = runs_.emplace_back(
            RunPlan{candidate.name + ", seed " + number, candidate.options,
                    folder / kRuns / candidate.folder / ("seed-" + number), command});
        run.options.seed = seed;
      }
    }
  }
}

std::vector<std::size_t> Rounds::next(std::span<const RunStatus> statuses) {
  std::vector<std::size_t> round;
  if (seeds_.empty()) {
    seeds_.assign(variants_.size(), first_);
    for (std::size_t seed = 0; seed < first_; ++seed)
      for (std::size_t run = seed; run < runs_.size(); run += last_) round.push_back(run);
    return round;
  }
  std::vector<std::size_t> trained = undecided(statuses);
  if (trained.empty()) return round;
  trained.push_back(reference_);
  std::ranges::sort(trained);
  for (const std::size_t variant : trained) {
    const RunPlan* const first = chosen(variant, statuses).runs.data();
    round.push_back(static_cast<std::size_t>(first - runs_.data()) + seeds_[variant]++);
  }
  return round;
}

// Attentions whose verdicts may be decided by one more seed. One that is decided stays so: only its
// own seeds count.
std::vector<std::size_t> Rounds::undecided(std::span<const RunStatus> statuses) const {
  const Question& question = facts_.question;
  ComparisonResult result = facts_;
  for (std::size_t i = 0; i < variants_.size(); ++i)
    result.variants.push_back(outcome_of(variants_[i], chosen(i, statuses)));
  const VariantResult& than = result.variants[reference_];
  const std::optional<double> limit = tolerance(result);
  if (!limit || !why_undecided(result, *limit).empty()) return {};
  std::vector<std::size_t> undecided;
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    VariantResult& v = result.variants[i];
    if (i == reference_ || seeds_[i] == last_) continue;
    v.costs = paired_costs(v.runs, than.runs, question.metric);
    const std::vector<double> costs = deciding_costs(v, than);
    const bool no_interval =  // none holds infinite costs
        question.metric == Metric::loss && std::ranges::find(costs, kDivergedCost) != costs.end();
    const bool failed = std::max(v.failures.size(), than.failures.size()) >= first_;
    if (!no_interval && !failed && judge_.verdict(costs, limit) == Verdict::open)
      undecided.push_back(i);
  }
  return undecided;
}

Rounds::Chosen Rounds::chosen(std::size_t variant, std::span<const RunStatus> statuses) const {
  const std::vector<std::optional<double>> figures = tuning_figures(variant, statuses);
  const auto best = std::ranges::min_element(figures, {}, [](const std::optional<double>& figure) {
    return figure.value_or(std::numeric_limits<double>::infinity());
  });
  const auto candidate = static_cast<std::size_t>(best - figures.begin());
  const std::size_t run = first_run_[variant] + candidate * last_;
  return {&variants_[variant].candidates[candidate], std::span(runs_).subspan(run, seeds_[variant]),
          statuses.subspan(run, seeds_[variant])};
}

std::vector<std::optional<double>> Rounds::tuning_figures(
    std::size_t variant, std::span<const RunStatus> statuses) const {
  const auto figure_of = [&](const RunStatus& status) -> std::optional<double> {
    if (!status.result) return std::nullopt;
    if (facts_.question.metric != Metric::steps) return status.result->tuning_loss;
    return static_cast<double>(steps_taken(*status.result));
  };
  std::vector<std::optional<double>> figures;
  for (std::size_t i = 0; i < variants_[variant].candidates.size(); ++i) {
    std::optional<double>& sum = figures.emplace_back(0);
    for (const RunStatus& status : statuses.subspan(first_run_[variant] + i * last_, first_)) {
      const std::optional<double> figure = figure_of(status);
      sum = sum && figure ? std::optional(*sum + *figure) : std::nullopt;
    }
    if (sum) *sum /= static_cast<double>(first_);
  }
  return figures;
}

VariantResult outcome_of(const PlannedVariant& variant, const Rounds::Chosen& chosen) {
  VariantResult result;
  result.spec = variant.spec;
  result.adjusted = chosen.candidate->adjusted;
  for (std::size_t i = 0; i < chosen.statuses.size(); ++i) {
    const RunStatus& status = chosen.statuses[i];
    if (status.result) {
      result.runs.push_back(*status.result);
      continue;
    }
    result.failures.push_back("seed " + std::to_string(i + 1) + ": " + status.failure);
    if (status.diverged) result.diverged.push_back(i + 1);
  }
  return result;
}

}  // namespace headcount
