#pragma once

#include "train/compare/comparison.h"

namespace headcount {

/// The share of right answers from which a run has learned its corpus: nine tenths of the way from
/// `chance` to all of them.
double learned_from(double chance);

/// How many of the variant's runs have learned the corpus; none without `chance`, where it marks no
/// answers.
std::optional<Index> runs_that_learned(const VariantResult& variant, std::optional<double> chance);

}  // namespace headcount
