#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/compare/comparison.h"

/// What has to hold before a difference between attentions means anything: models that were
/// trained, and a reference that has learned more than the text gives away.

namespace headcount {

/// The validation loss of what has learned nothing of the text, nats: where the loss counts answers
/// alone, of a guesser, -log of its chance; elsewhere, of counted pairs of characters.
double baseline_loss(const Corpus& corpus);
/// "guessing", "a table of character pairs".
std::string baseline_name(const ComparisonResult& result);

/// Why no verdict can be reached, a clause without an end; empty where one can. `reference` are the
/// runs of the reference, of which those of the first seeds settle it, as they do the tolerance.
/// Beside a reference that is no better than the baseline, or better by no more than the tolerance,
/// what has learned nothing would be enough.
std::string why_open(const ComparisonResult& result, std::span<const RunResult> reference);

/// How fast the training loss of the reference still falls at its end, nats in 100 steps; none
/// where its last tenth of the steps lost less than the tolerance (of answers: less than a
/// hundredth of a nat for each point of it), or where that is within its noise.
std::optional<double> fall_at_end(const ComparisonResult& result);

/// What stands beside the verdict, sentences: what it supposes, over which seeds the means are, and
/// what speaks for training longer or otherwise.
std::vector<std::string> verdict_notes(const ComparisonResult& result);

}  // namespace headcount
