#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "train/compare/variants.h"
#include "train/run/loaded.h"

/// Comparison of two ways to a smaller cache: training from random weights, and converting a
/// trained model.

namespace headcount {

/// Converted models by the folder to save them in.
using ConvertedModels = std::map<std::filesystem::path, std::unique_ptr<LanguageModel>>;

/// Each attention trained from random weights, then converted from the model of `run` and trained
/// on for 0, 1, 5, 20 and 100 % of the steps, with the schedule shortened alike. `common` has the
/// settings that all attentions share; settings that a spec leaves open are fitted to the model.
/// Adds the converted models to `converted`, in folders below `folder`. Throws ShapeError for an
/// attention that the model cannot be converted to.
std::vector<PlannedVariant> plan_conversions(const Given& common,
                                             const std::vector<AttentionSpec>& specs,
                                             const LoadedRun& run,
                                             const std::filesystem::path& folder,
                                             ConvertedModels& converted);

/// Saves each model in its folder, from which its variants start. Throws WriteError, and
/// OtherRunError if the folder has other weights, unless `again`.
void write_conversions(const ConvertedModels& converted, const Vocabulary& vocabulary, bool again);

}  // namespace headcount
