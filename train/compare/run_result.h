#pragma once

#include <optional>

#include "autograd/error.h"
#include "train/compare/runner.h"

/// result.json of a run of a comparison: what it measured, with a checksum. It is there once the
/// run has finished.

namespace headcount {

/// A finished run that is not the one that is wanted; the message names it and says what differs.
class OtherRunError : public DataError {
 public:
  using DataError::DataError;
};

/// Writes the result of a finished run, which is unfinished no more. `basis` is what it depends on
/// besides its settings, `sharing` how the machine was shared. Throws WriteError.
void write_run_result(const PlannedRun& run, const RunResult& result, const nlohmann::json& basis,
                      const std::string& sharing);

/// The result that an earlier comparison left, if it finished `run`. Throws OtherRunError if that
/// run had other settings or another basis, and DataError, naming the file, for a damaged one.
std::optional<RunResult> read_run_result(const PlannedRun& run, const nlohmann::json& basis);

/// failed.json, for whoever collects the runs of many processes: why a run has no result. Best
/// effort: a folder that cannot be written is why some runs fail.
void write_run_failure(const PlannedRun& run, const RunOutcome& outcome,
                       const nlohmann::json& basis);
/// Nothing where there is none of `run` with these settings and this basis.
std::optional<RunOutcome> read_run_failure(const PlannedRun& run, const nlohmann::json& basis);

/// What a run has taken so far; steps and their seconds without evaluations and checkpoints.
struct TimeSpent {
  double machine_seconds = 0;
  Index steps = 0;
  double step_seconds = 0;
};

/// unfinished.json of a run without a result yet: what it is and, as of its newest checkpoint, what
/// it has taken. Throws WriteError.
void write_unfinished(const PlannedRun& run, const TimeSpent& spent, const nlohmann::json& basis);
/// Nothing unless an earlier comparison of this version left `run`, with these settings and this
/// basis, so that it can go on.
std::optional<TimeSpent> read_unfinished(const PlannedRun& run, const nlohmann::json& basis);

/// How a run ended, for another process.
nlohmann::json to_json(const RunOutcome& outcome);
RunOutcome outcome_from(const nlohmann::json& json);

}  // namespace headcount
