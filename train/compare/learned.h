#pragma once

#include "train/compare/comparison.h"

namespace headcount {

/// Share of right answers from which on a run counts as having learned its corpus: chance + 0.9 (1
/// - chance).
double learned_from(double chance);

/// Number of the attention's runs that learned the corpus. None without `chance`, that is, if the
/// corpus marks no answers.
std::optional<Index> runs_that_learned(const VariantResult& variant, std::optional<double> chance);

}  // namespace headcount
