#pragma once

#include <filesystem>
#include <vector>

#include "train/compare/variants.h"
#include "train/run/loaded.h"

/// Comparison of two ways to a smaller cache: training from random weights, and converting a
/// trained model.

namespace headcount {

/// Each attention trained from random weights, then converted from the model of `run` and trained
/// on for 0, 1, 5, 20 and 100 % of the steps, with the schedule shortened alike. `common` has the
/// settings that all attentions share; settings that a spec leaves open are fitted to the model.
/// Converted weights go to `folder`. Throws ShapeError for an attention that the model cannot be
/// converted to.
std::vector<PlannedVariant> plan_conversions(const Given& common,
                                             const std::vector<AttentionSpec>& specs,
                                             const LoadedRun& run,
                                             const std::filesystem::path& folder);

/// Converts the model of `run` for each variant and saves it in the folder that the variant starts
/// from. Throws WriteError, and OtherRunError if the folder has other weights, unless `again`.
void write_conversions(const std::vector<PlannedVariant>& variants, const LoadedRun& run,
                       bool again);

}  // namespace headcount
