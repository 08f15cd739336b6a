#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "autograd/base/error.h"
#include "train/compare/runner.h"

/// Files by which the processes of a comparison tell each other about a run: result.json, its
/// measurements, once it has finished; unfinished.json until then; failed.json, why it has no
/// result. All functions take the `basis` of the run: see run_basis.

namespace headcount {

/// The folder holds a run, or a comparison, other than the wanted one; the message names it and
/// says what differs.
class OtherRunError : public DataError {
 public:
  using DataError::DataError;
};

/// Throws OtherRunError, with both commands, if the folder has the results of a comparison with
/// other settings, on another text, or with another `match` or `sweep` than `comparison`, whose
/// facts and common settings are known before any run, or of attentions or seeds that it lacks: its
/// results would replace them. More attentions or seeds, and another question about the runs,
/// continue the comparison there. Throws DataError if results.json is damaged.
void require_same_comparison(const std::filesystem::path& folder,
                             const ComparisonResult& comparison,
                             const std::vector<AttentionSpec>& specs);

/// What results depend on besides settings: text, and how much of it is for training and tuning.
nlohmann::json run_basis(const Corpus& corpus);

/// Writes result.json of a finished run and removes unfinished.json and failed.json. `sharing` says
/// how the machine was shared. Throws WriteError.
void write_run_result(const RunPlan& run, const RunResult& result, const nlohmann::json& basis,
                      const std::string& sharing);

/// Writes failed.json. Does not throw: a folder that cannot be written is one reason why runs fail,
/// and another process then finds out by itself.
void write_run_failure(const RunPlan& run, const RunStatus& status, const nlohmann::json& basis);

/// How `run` ended, by its result.json or by a failed.json of this version of the program; none if
/// it has not ended. Throws OtherRunError if the folder holds a finished run of other settings or
/// another basis, and DataError, naming the file, if the file is damaged.
std::optional<RunStatus> read_run_status(const RunPlan& run, const nlohmann::json& basis);

/// Erases what earlier comparisons recorded of `run`: a result, a failure, or time taken. Throws
/// WriteError.
void forget_run(const RunPlan& run);
/// Erases failed.json. Throws WriteError.
void forget_failure(const RunPlan& run);

/// Writes unfinished.json of a run without a result yet: its identity and the time taken up to its
/// newest checkpoint, RunResult::machine_seconds. Throws WriteError.
void write_unfinished(const RunPlan& run, double machine_seconds, const nlohmann::json& basis);
/// Seconds in unfinished.json, so that the run can resume; none unless an earlier comparison by
/// this version left `run` with these settings and this basis.
std::optional<double> read_unfinished(const RunPlan& run, const nlohmann::json& basis);
/// Throws OtherRunError if unfinished.json, which the process that holds the folder's lock has
/// written, is of a run with other settings or another basis.
void require_same_run(const RunPlan& run, const nlohmann::json& basis);

}  // namespace headcount
