#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "models/attention_spec.h"
#include "train/compare/comparison.h"
#include "train/compare/sequential_testing.h"

/// Verdicts: which attentions are enough, and the statistics that decide it.

namespace headcount {

/// Throws SettingError for a reference that is a control or not among `specs`, for answers that the
/// text does not mark, for one seed if intervals are on, and for a range of seeds if intervals,
/// which end it, are off.
void require_answerable(const Question& question, const std::vector<AttentionSpec>& specs,
                        const Corpus& corpus);

/// Default metric for a text: steps if runs `stop_when_learned`, answers if its loss counts nothing
/// else, otherwise the loss.
Metric usual_metric(const Corpus& corpus, bool stop_when_learned);
/// Default numbers of seeds: enough to decide clear cases. Without intervals, a fixed number.
SeedRange usual_seeds(const Question& question);

/// Steps that `run` took to learn or, if it did not, all its steps, after which it may learn.
Index steps_taken(const RunResult& run);

/// Cost of `run`: how much worse it is than the reference's run on the same seed, by `metric`,
/// which both must have measured. Cost in steps is infinite for a run that did not learn, and none
/// if the reference did not learn either.
std::optional<double> cost_of(const RunResult& run, const RunResult& reference, Metric metric);

/// Each of `runs` with the reference's run of the same seed, on the seeds that both finished.
std::vector<std::pair<const RunResult*, const RunResult*>> pairs_of_runs(
    std::span<const RunResult> runs, std::span<const RunResult> reference);

/// Costs of `runs` by seed, on the seeds that the reference finished, too.
std::vector<SeedCost> paired_costs(std::span<const RunResult> runs,
                                   std::span<const RunResult> reference, Metric metric);

/// The costs without their seeds.
std::vector<double> values_of(const std::vector<SeedCost>& costs);

/// Cost of a run that diverged. To leave such a run out would make an attention that often diverges
/// look as good as its other runs.
inline constexpr double kDivergedCost = std::numeric_limits<double>::infinity();

/// Seeds on which `variant` diverged and the reference finished: each is a cost of `kDivergedCost`.
std::vector<std::uint64_t> diverged_seeds(const VariantResult& variant,
                                          const VariantResult& reference);

/// Costs that decide about `variant`: one for each finished run, and `kDivergedCost` for each
/// diverged seed.
std::vector<double> deciding_costs(const VariantResult& variant, const VariantResult& reference);

/// The explicit tolerance, or its default. The default is computed from the runs of the
/// reference and of each control on the first seeds, so that later runs do not move it; none
/// without such a run of the reference.
std::optional<double> tolerance(const ComparisonResult& result);

/// Returns true if `spec` is a control: without proof that it costs more than the tolerance, all
/// verdicts stay undecided.
bool is_control(const Question& question, std::string_view spec);

/// Step at which `run` had the validation loss `loss`, interpolated between its evaluations; none
/// if it did not get there.
std::optional<double> steps_to(const RunResult& run, double loss);

/// Which attentions are enough at 0.5, 1, 1.5 and 2 % of the reference's loss, a sentence: how much
/// verdicts depend on the tolerance. Empty if nothing is decided, or if no losses are compared.
std::string sensitivity(const ComparisonResult& result);

/// What the words of verdicts mean, sentences for help and reports; README.md quotes them.
inline constexpr std::string_view kVerdictMeaning =
    "Enough: shown, seed by seed, to take at most 25 % more steps than the reference (where "
    "answers or losses are compared, to lose at most 5 points or 1 %). Later, or not enough: "
    "shown to take or lose more. Not learned: most seeds had not at the end. Undecided: neither is "
    "shown.";

/// Word for a verdict: "enough", "undecided", "not enough" or, of steps to learn, "later" or "not
/// learned".
std::string verdict_word(Verdict verdict, Metric metric);
/// Returns false if most runs, of a comparison of steps, did not learn.
bool learns(const VariantResult& variant);

/// Central value of an attention's costs: the mean for losses, the median for answers and steps.
double middle_cost(const VariantResult& variant, Metric metric);

/// Default reference among `variants`: mha or, where it is not compared, the one with the largest
/// cache, which `bytes_of` a variant gives.
template <class Variant, class Bytes>
const Variant& usual_reference(const std::vector<Variant>& variants, const Bytes& bytes_of) {
  const auto mha = std::ranges::find(variants, "mha", &Variant::spec);
  return mha != variants.end() ? *mha : *std::ranges::max_element(variants, {}, bytes_of);
}
/// Attention that the others are compared with: see Question::reference.
const VariantResult& reference(const ComparisonResult& result);

/// Returns true if `variant` gets a verdict: it is not the reference, and a run of it finished or
/// diverged.
bool has_verdict(const VariantResult& variant, const ComparisonResult& result);

/// The attention with the least cache that is enough; null if none is.
const VariantResult* cheapest_enough(const ComparisonResult& result);

/// Verdicts in words: "mqa is enough: 25 % of mha's KV cache, at +0.003 +- 0.004 (tolerance
/// 0.010)", "mla8+4 is not: +0.052 +- 0.006". First the cheapest attention that is enough, then the
/// others. For answers and steps they give, instead of an interval, how many seeds lie below the
/// tolerance. If nothing can be decided, there is one clause, which says why.
std::vector<std::string> verdict_clauses(const ComparisonResult& result);

/// Verdict on one attention, for lists: {"enough", "mqa: 28 % of mha's KV cache, in 140 steps
/// (...)"}. `verdict_items` has attentions that are enough first, undecided ones last; a sentence
/// on all attentions has no word. Empty if nothing is decided.
struct VerdictItem {
  std::string word, text;
};
std::vector<VerdictItem> verdict_items(const ComparisonResult& result);

}  // namespace headcount
