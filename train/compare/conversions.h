#pragma once

#include <filesystem>
#include <vector>

#include "train/compare/variants.h"
#include "train/run/loaded.h"

/// A comparison of two ways to a smaller cache: training from random weights, and converting a
/// trained model.

namespace headcount {

/// Each attention trained from random weights, then converted from the model of `run` and trained
/// on for 0, 1, 5, 20 and 100 % of as many steps, with a schedule as much shorter. `common`
/// has what all attentions share; what a spec leaves open suits the model, in both ways alike.
/// Weights are to be in `folder`. Throws ShapeError for an attention that the model cannot be
/// converted to.
std::vector<PlannedVariant> plan_conversions(const Given& common,
                                             const std::vector<AttentionSpec>& specs,
                                             const LoadedRun& run,
                                             const std::filesystem::path& folder);

/// Converts the model of `run` for each of `variants` into the folders that they start from, in
/// place of what is there. Throws WriteError.
void write_conversions(const std::vector<PlannedVariant>& variants, const LoadedRun& run);

}  // namespace headcount
