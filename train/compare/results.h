#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "train/compare/comparison.h"

namespace headcount {

/// Fills in what follows from the runs of each variant: estimates, differences from the reference,
/// verdicts, speeds, the Pareto front.
void summarize(ComparisonResult& result);

/// Runs that an earlier comparison left and that something else trained than this version of the
/// program on this machine, shared as it is now.
struct ForeignRuns {
  std::string version, machine;
  std::vector<std::string> runs;  ///< "mha, seed 1"
};
std::vector<ForeignRuns> foreign_runs(const ComparisonResult& result);

/// Sentences about runs: those that failed, those of others, those that do not show how they read.
std::vector<std::string> notes(const ComparisonResult& result);

/// One row per variant, for people, then failures and notes.
std::string comparison_table(const ComparisonResult& result);
/// The same with a header of column names (RFC 4180).
std::string comparison_csv(const ComparisonResult& result);
/// results.json: all results but loss curves and what the report shows of a passage. Intervals are
/// half widths, null where there is none; the reference differs from itself by null.
nlohmann::ordered_json comparison_json(const ComparisonResult& result);

}  // namespace headcount
