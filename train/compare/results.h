#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/compare/comparison.h"

namespace headcount {

/// Computes from the runs of each attention: estimates, differences from the reference, verdicts,
/// speeds, the Pareto front.
void summarize(ComparisonResult& result);

/// Runs of an earlier comparison that another version, another machine or another way of sharing
/// the machine trained.
struct ForeignRuns {
  std::string version, machine;
  std::vector<std::string> runs;  ///< "mha, seed 1"
};
std::vector<ForeignRuns> foreign_runs(const ComparisonResult& result);

/// Notes, one sentence each: stories that the context cuts, characters evaluated if
/// `eval-characters` limits them, notes on attentions, attentions without a reading, runs that
/// failed at values which the sweep did not choose, and foreign runs.
std::vector<std::string> notes(const ComparisonResult& result);

/// Table for people with one row per attention, followed by failures and notes.
std::string comparison_table(const ComparisonResult& result);
/// CSV (RFC 4180) with one row per attention and a header of column names.
std::string comparison_csv(const ComparisonResult& result);
/// results.json: results, but no loss curves, readings of the passage, answers by distance or
/// caches by layer, which the report draws. Intervals are half widths, null if there is none; the
/// difference of the reference is null.
nlohmann::ordered_json comparison_json(const ComparisonResult& result);

}  // namespace headcount
