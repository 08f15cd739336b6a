#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "models/attention_spec.h"
#include "train/compare/comparison.h"
#include "train/compare/result_text.h"
#include "train/repeated_intervals.h"

/// Which attentions are enough, and what it takes to say so.

namespace headcount {

/// Throws SettingError for a reference that is not among `specs`, for answers that the text does
/// not mark, and for a range of seeds without the intervals that end it.
void require_answerable(const Question& question, const std::vector<AttentionSpec>& specs,
                        const Corpus& corpus);

/// How much worse `run` is than that of the reference on the same seed, by the metric. Not for runs
/// without it.
double cost_of(const RunResult& run, const RunResult& reference, Metric metric);

/// The tolerance that was given, or its default, which the reference's runs of the first seeds
/// settle: later ones do not move it. None without such a run.
std::optional<double> tolerance(const Question& question, std::span<const RunResult> reference);

/// "enough", "not enough", "open".
std::string verdict_word(Verdict verdict);

/// Open without an interval or a tolerance.
Verdict verdict(const Estimate& cost, std::optional<double> tolerance);

/// The looks that it takes to end with one more seed, and one more, up to the last.
RepeatedIntervals looks_at(const SeedRange& seeds);

/// Where the costs of one attention stand, seed after seed.
struct Decision {
  Verdict verdict = Verdict::open;
  std::size_t seeds = 0;  ///< that were looked at; with a verdict, those that it took
};

/// Looks at `costs`, of seeds 1, 2, ..., none where a run failed, as often as `looks` has it, until
/// one look decides. `is_open`, if given, says after how many seeds none can.
Decision decide(std::span<const std::optional<double>> costs, double tolerance,
                const RepeatedIntervals& looks,
                const std::function<bool(std::size_t seeds)>& is_open = {});

/// Which of `variants` the others are judged by: see Question::reference.
std::size_t reference_place(const Question& question, std::span<const VariantResult> variants);
const VariantResult& reference(const ComparisonResult& result);

/// The attention with the least cache among those that are enough; null if none is.
const VariantResult* cheapest_enough(const ComparisonResult& result);

/// "mqa is enough: 256 B a token, a quarter of mha's, at +0.003 +- 0.004 (tolerance 0.010); mla8+4
/// is not: +0.052 +- 0.006": the cheapest that is enough, then the others.
std::string verdict_text(const ComparisonResult& result, Reader reader = Reader::terminal);

}  // namespace headcount
