#pragma once

#include <span>

#include "train/compare/comparison.h"

namespace headcount {

/// The share of right answers from which a run has learned its corpus: nine tenths of the way from
/// `chance` to all of them.
double learned_from(double chance);

/// How many of the variant's runs have learned the corpus; none without `chance`, where it marks no
/// answers.
std::optional<Index> runs_that_learned(const VariantResult& variant, std::optional<double> chance);

/// Whether some of the runs have learned the corpus and some have not: their results are bimodal.
bool is_bimodal(std::span<const RunResult> runs, std::optional<double> chance);

/// Takes away the intervals of variants whose results are bimodal, and of differences from such a
/// variant, as far as they come from the same seeds, and leaves the verdict open: a mean with an
/// interval says nothing of them.
void withhold_bimodal_intervals(ComparisonResult& result);

/// "mqa: 2 of 3 seeds learned it, ...", a sentence for each such variant.
std::vector<std::string> bimodal_notes(const ComparisonResult& result);

}  // namespace headcount
