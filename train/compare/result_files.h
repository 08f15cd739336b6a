#pragma once

#include <optional>

#include "autograd/base/error.h"
#include "train/compare/runner.h"

/// result.json of a run of a comparison: its measurements, with a checksum. It exists once the run
/// has finished.

namespace headcount {

/// The folder holds a finished run other than the wanted one; the message names it and says what
/// differs.
class OtherRunError : public DataError {
 public:
  using DataError::DataError;
};

/// Writes result.json of a finished run and removes unfinished.json. `basis` is what the result
/// depends on besides the settings; `sharing` says how the machine was shared. Throws WriteError.
void write_run_result(const PlannedRun& run, const RunResult& result, const nlohmann::json& basis,
                      const std::string& sharing);

/// Result of `run` by an earlier comparison; none if that did not finish it. Throws OtherRunError
/// if that run had other settings or another basis, and DataError, naming the file, if the file is
/// damaged.
std::optional<RunResult> read_run_result(const PlannedRun& run, const nlohmann::json& basis);

/// Erases what earlier comparisons recorded of `run`: a result, a failure, or time taken. Throws
/// WriteError.
void forget_run(const PlannedRun& run);

/// Writes failed.json, the reason why a run has no result, for the process that collects the
/// results of shards. Does not throw: a folder that cannot be written is one reason why runs fail.
void write_run_failure(const PlannedRun& run, const RunOutcome& outcome,
                       const nlohmann::json& basis);
/// Reads failed.json; none if the folder has none of `run` with these settings and this basis.
std::optional<RunOutcome> read_run_failure(const PlannedRun& run, const nlohmann::json& basis);

/// Time that a run has taken so far. `steps` and `step_seconds` leave out evaluations and
/// checkpoints.
struct TimeSpent {
  double machine_seconds = 0;
  Index steps = 0;
  double step_seconds = 0;
};

/// Writes unfinished.json of a run without a result yet: its identity and the time taken up to its
/// newest checkpoint. Throws WriteError.
void write_unfinished(const PlannedRun& run, const TimeSpent& spent, const nlohmann::json& basis);
/// Reads unfinished.json, so that the run can resume; none unless an earlier comparison by this
/// version left `run` with these settings and this basis.
std::optional<TimeSpent> read_unfinished(const PlannedRun& run, const nlohmann::json& basis);

/// Outcome of a run as JSON, for another process.
nlohmann::json to_json(const RunOutcome& outcome);
/// Outcome of a run that has ended, from what `to_json` returned. Throws nlohmann::json::exception
/// for other JSON.
RunOutcome outcome_from(const nlohmann::json& json);

}  // namespace headcount
