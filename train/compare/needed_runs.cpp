#include "train/compare/needed_runs.h"

#include <algorithm>
#include <utility>

#include "train/compare/premises.h"
#include "train/run/place.h"

namespace headcount {

namespace {

bool all_ended(std::span<const RunStatus> outcomes) {
  return std::ranges::all_of(outcomes, &RunStatus::ended);
}

}  // namespace

NeededRuns::NeededRuns(const std::vector<PlannedVariant>& variants, ComparisonResult facts,
                       const std::filesystem::path& folder, const std::string& command)
    : variants_(variants),
      facts_(std::move(facts)),
      reference_(static_cast<std::size_t>(
          std::ranges::find(variants, facts_.question.reference, &PlannedVariant::spec) -
          variants.begin())),
      first_(static_cast<std::size_t>(facts_.question.seeds.first)),
      seeds_(static_cast<std::size_t>(facts_.question.seeds.last)),
      judge_(facts_.question.metric, facts_.question.seeds) {
  for (const PlannedVariant& variant : variants) {
    for (const Candidate& candidate : variant.candidates) {
      for (std::size_t seed = 1; seed <= seeds_; ++seed) {
        const std::string number = std::to_string(seed);
        RunPlan& run = runs_.emplace_back(
            RunPlan{candidate.name + ", seed " + number, candidate.options,
                    folder / kRuns / candidate.folder / ("seed-" + number), command});
        run.options.seed = seed;
      }
    }
  }
}

std::size_t NeededRuns::first_run(std::size_t variant, std::size_t candidate) const {
  std::size_t before = candidate;
  for (std::size_t v = 0; v < variant; ++v) before += variants_[v].candidates.size();
  return before * seeds_;
}

std::optional<double> NeededRuns::tuning_figure(std::span<const RunStatus> outcomes) const {
  double sum = 0;
  for (const RunStatus& outcome : outcomes) {
    if (!outcome.result) return std::nullopt;
    sum += facts_.question.metric == Metric::steps
               ? static_cast<double>(steps_taken(*outcome.result))
               : outcome.result->tuning_loss.value();
  }
  return sum / static_cast<double>(outcomes.size());
}

std::optional<NeededRuns::Settled> NeededRuns::settled(std::span<const RunStatus> outcomes) const {
  ComparisonResult result = facts_;
  for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
    VariantResult& first = result.variants.emplace_back();
    first.spec = variants_[variant].spec;
    if (variant != reference_ && !is_control(result.question, first.spec)) continue;
    const auto run = best(variant, outcomes);
    if (!run || !all_ended(of(outcomes, *run).first(first_))) return std::nullopt;
    for (const RunStatus& outcome : of(outcomes, *run).first(first_))
      if (outcome.result) first.runs.push_back(*outcome.result);
  }
  const std::optional<double> limit = tolerance(result);
  return Settled{limit, limit && !why_open(result, *limit).empty()};
}

std::optional<std::size_t> NeededRuns::best(std::size_t variant,
                                            std::span<const RunStatus> outcomes) const {
  const std::size_t candidates = variants_[variant].candidates.size();
  if (candidates == 1) return first_run(variant, 0);
  std::optional<std::size_t> best;
  std::optional<double> least;
  for (std::size_t candidate = 0; candidate < candidates; ++candidate) {
    const std::size_t run = first_run(variant, candidate);
    const auto first = of(outcomes, run).first(first_);
    if (!all_ended(first)) return std::nullopt;
    const std::optional<double> figure = tuning_figure(first);
    if (best && !(figure && (!least || *figure < *least))) continue;
    best = run;
    least = figure;
  }
  return best;
}

void NeededRuns::need_more(std::size_t variant, std::span<const RunStatus> outcomes,
                           const std::optional<Settled>& settled, std::vector<Need>& needs) const {
  const auto own = best(variant, outcomes), of_reference = best(reference_, outcomes);
  if (!of_reference) return;
  if (!own) {  // its best candidate may yet need more seeds of the reference
    for (std::size_t seed = first_; seed < seeds_; ++seed)
      needs[*of_reference + seed] = std::min(needs[*of_reference + seed], Need::maybe);
    return;
  }
  const auto runs = of(outcomes, *own), references = of(outcomes, *of_reference);
  const auto need = [&](std::size_t seed, Need how) {
    for (const std::size_t run : {*own, *of_reference})
      needs[run + seed] = std::min(needs[run + seed], how);
  };
  // Looks are in the order of seeds, so a look never skips a run that is still under way.
  std::vector<std::optional<double>> costs;
  std::size_t failed = 0, failed_references = 0;
  bool lost = false;
  // Returns true after the look at which more seeds became useless. Seeds behind it, which may have
  // been trained in the meantime, do not count.
  const auto given_up = [&] {
    if (costs.size() < first_) return false;
    const bool no_interval =
        lost && facts_.question.metric == Metric::loss;  // none holds infinite costs
    return no_interval || std::max(failed, failed_references) >= first_;
  };
  for (std::size_t i = 0; i < seeds_ && runs[i].ended && references[i].ended && !given_up(); ++i) {
    costs.emplace_back();
    failed += !runs[i].result;
    failed_references += !references[i].result;
    if (!references[i].result) continue;
    if (runs[i].result)
      costs.back() = cost_of(*runs[i].result, *references[i].result, facts_.question.metric);
    if (runs[i].diverged) costs.back() = kDivergedCost;
    lost = lost || runs[i].diverged;
  }
  if (settled && costs.size() >= first_) {
    if (settled->open) return;
    Decision decision;
    if (settled->tolerance) decision = decide(costs, *settled->tolerance, judge_);
    for (std::size_t seed = 0; seed < decision.seeds; ++seed) need(seed, Need::now);
    if (decision.verdict != Verdict::open || given_up()) return;
    if (costs.size() < seeds_) need(costs.size(), Need::now);
  }
  for (std::size_t seed = first_; seed < seeds_; ++seed) need(seed, Need::maybe);
}

std::vector<Need> NeededRuns::needs(std::span<const RunStatus> outcomes) const {
  std::vector<Need> needs(runs_.size(), Need::no);
  for (std::size_t run = 0; run < needs.size(); ++run) {
    if (runs_[run].options.seed <= first_) needs[run] = Need::now;
  }
  const std::optional<Settled> settled = this->settled(outcomes);
  for (std::size_t variant = 0; variant < variants_.size(); ++variant) {
    if (variant != reference_) need_more(variant, outcomes, settled, needs);
  }
  return needs;
}

NeededRuns::Chosen NeededRuns::chosen(std::size_t variant,
                                      std::span<const RunStatus> outcomes) const {
  const std::vector<Need> all = needs(outcomes);
  const std::size_t first = best(variant, outcomes).value();
  Chosen chosen{&variants_[variant].candidates[first / seeds_ - first_run(variant, 0) / seeds_],
                &runs_[first],
                {}};
  for (std::size_t run = first; run < first + seeds_; ++run) {
    if (all[run] == Need::now) chosen.outcomes.push_back(outcomes[run]);
  }
  return chosen;
}

std::vector<std::optional<double>> NeededRuns::tuning_figures(
    std::size_t variant, std::span<const RunStatus> outcomes) const {
  std::vector<std::optional<double>> figures;
  for (std::size_t i = 0; i < variants_[variant].candidates.size(); ++i) {
    figures.push_back(tuning_figure(of(outcomes, first_run(variant, i)).first(first_)));
  }
  return figures;
}

}  // namespace headcount
