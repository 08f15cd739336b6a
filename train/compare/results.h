#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "train/compare/comparison.h"

namespace headcount {

/// Fills in what follows from the runs of each variant: estimates, differences from the first
/// variant, the Pareto front. Without `intervals` no estimate has one.
void summarize(ComparisonResult& result, bool intervals = true);

/// One row per variant, for people.
std::string comparison_table(const ComparisonResult& result);
/// The same with a header of column names (RFC 4180).
std::string comparison_csv(const ComparisonResult& result);
/// results.json: everything but the loss curves. Intervals are half widths, null where there is
/// none; the first variant differs from itself by null.
nlohmann::ordered_json comparison_json(const ComparisonResult& result);

}  // namespace headcount
