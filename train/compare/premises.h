#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "train/compare/comparison.h"

/// Conditions under which a difference between attentions means anything: models are trained, and
/// the reference has learned more than a model without attention could, and no less than a smaller
/// cache.

namespace headcount {

/// Validation loss of a baseline that learned nothing of the text's structure, nats. If the loss
/// counts answers alone, it is that of a guesser, -log of its chance; otherwise that of a bigram
/// model (see character_pair_loss).
double baseline_loss(const Corpus& corpus);
/// Name of the baseline: "guessing" or "a bigram model".
std::string baseline_name(const ComparisonResult& result);

/// Reason why no verdict can be reached, a clause without a full stop; empty if verdicts can be
/// reached. The reference's runs on the first seeds settle the reason, as they settle the
/// `tolerance`. If the reference is better than the baseline by no more than the tolerance, a model
/// that learned nothing would be enough.
std::string why_undecided(const ComparisonResult& result, double tolerance);

/// Reason why no verdict can be reached although the reference has learned, a clause as above: an
/// attention with a smaller cache, trained alike, is shown to be better by more than the tolerance.
/// More cache cannot be a disadvantage in itself, so the reference has not learned what it could,
/// and whatever learns faster would be enough. Takes the variants' costs.
std::string why_beaten(const ComparisonResult& result);

/// Reason why no verdict can be reached since a control, which must cost something, is not shown to
/// cost more than the tolerance, a clause as above. What lets a control pass would let anything
/// pass. Takes the variants' verdicts.
std::string why_control_passes(const ComparisonResult& result);

/// Reason, known before any run, why no verdict can be reached, a clause as above: seeds, steps, a
/// tolerance or a mark with which none is possible. `facts` needs no variants.
std::string why_in_vain(const ComparisonResult& facts);

/// Returns true if the attention's runs overfit: if since the evaluation at which their mean
/// validation loss was lowest it has risen (see `overfits`), and that of each run has.
bool overfits(const VariantResult& variant);
/// Returns true if they overfit, or look so without evaluations on the way: the mean of their
/// validation losses is no better than the baseline's, and that of training is far below both.
bool may_overfit(const VariantResult& variant, const ComparisonResult& result);

/// Rate at which an attention's training loss still falls at its end, nats per 100 steps. None if
/// it fell by less than the tolerance over the last tenth of the steps (for answers: by less than
/// 0.01 nats per percentage point of tolerance), or if the fall is within the noise.
std::optional<double> fall_at_end(const VariantResult& variant, const ComparisonResult& result);

/// Share of right answers, in the worst direction if there are directions, from which on a run
/// counts as having learned the corpus `data`, unless settings say otherwise. Where one of six
/// directions is not learned at all, more than nine tenths of all answers are right, so that
/// directions ask for more than `kLearned`.
double share_to_learn(std::string_view data);
/// Number of the attention's runs that learned the corpus: that reached `stop-at-answers` and
/// `stop-at-loss` or, if the comparison sets neither, the share of right answers that
/// `share_to_learn` returns.
Index runs_that_learned(const VariantResult& variant, const ComparisonResult& result);
/// What a run must reach to have learned the corpus: "95 % of the answers right", "a loss below
/// 1.5", or both.
std::string learned_text(const ComparisonResult& result);

/// Name of the setting that the comparison sweeps.
std::string swept_setting(const ComparisonResult& result);

/// Sentences that accompany the verdict: what its numbers are, the seeds of the means, and reasons
/// to distrust it, or to train longer or with other settings.
std::vector<std::string> verdict_notes(const ComparisonResult& result);
/// Sentences on its statistics: the test, what that assumes, and verdicts at other tolerances.
std::vector<std::string> statistics_notes(const ComparisonResult& result);

}  // namespace headcount
