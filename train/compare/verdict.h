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
#include "train/sign_test.h"

/// Which attentions are enough, and what it takes to say so.

namespace headcount {

/// Throws SettingError for a reference that is not among `specs`, for answers that the text does
/// not mark, and for a range of seeds without the intervals that end it.
void require_answerable(const Question& question, const std::vector<AttentionSpec>& specs,
                        const Corpus& corpus);

/// What a text is asked about unless somebody says otherwise: its answers, where its loss counts
/// nothing else, or else the loss.
Metric usual_metric(const Corpus& corpus);
/// As many seeds as it takes to decide in clear cases; one number of them without intervals.
SeedRange usual_seeds(const Question& question);

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

/// How verdicts follow from the costs of the seeds so far, by looks that take one more seed, and
/// one more, up to the last. Differences of losses are supposed to be normal: their mean has an
/// interval. Shares of right answers are bounded, skewed, and sometimes in two clusters; no
/// interval of the mean of so few holds then, since a failure that is rare has not been seen.
/// What is judged there is what at least half of all seeds do.
class Judge {
 public:
  Judge(Metric metric, const SeedRange& seeds);

  /// After how many finished seeds it looks first.
  std::size_t first() const { return static_cast<std::size_t>(intervals_.first()); }
  const RepeatedIntervals& intervals() const { return intervals_; }
  /// Open where there is no look after so many. Of a fixed number of seeds, however many finished.
  Verdict verdict(std::span<const double> costs, std::optional<double> tolerance) const;

 private:
  Metric metric_;
  RepeatedIntervals intervals_;
  SignTest signs_;
};

/// Of seeds counted one by one: on which side of the tolerance at least half of all lie.
Verdict verdict(std::span<const double> costs, double tolerance, const SignTest& signs);

/// What the costs of an attention have in the middle: the mean of losses, the median of answers.
double middle_cost(const VariantResult& variant, Metric metric);

/// Where the costs of one attention stand, seed after seed.
struct Decision {
  Verdict verdict = Verdict::open;
  std::size_t seeds = 0;  ///< that were looked at; with a verdict, those that it took
};

/// Looks at `costs`, of seeds 1, 2, ..., none where a run failed, as often as `judge` does, until
/// one look decides.
Decision decide(std::span<const std::optional<double>> costs, double tolerance, const Judge& judge);

/// Which of `variants` the others are judged by: see Question::reference.
std::size_t reference_place(const Question& question, std::span<const VariantResult> variants);
const VariantResult& reference(const ComparisonResult& result);

/// The attention with the least cache among those that are enough; null if none is.
const VariantResult* cheapest_enough(const ComparisonResult& result);

/// "mqa is enough: 256 B a token, a quarter of mha's, at +0.003 +- 0.004 (tolerance 0.010); mla8+4
/// is not: +0.052 +- 0.006": the cheapest that is enough, then the others. Of answers, instead of
/// an interval, how many seeds lie below the tolerance. Or why nothing can be decided.
std::string verdict_text(const ComparisonResult& result, Reader reader = Reader::terminal);

}  // namespace headcount
