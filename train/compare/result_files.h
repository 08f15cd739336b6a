#pragma once

#include <optional>

#include "autograd/base/error.h"
#include "train/compare/runner.h"

/// How the processes of a comparison tell each other about a run: by the status, the result or the
/// failure in its run.json. `corpus` is the one that the runs are trained on, with the slice that a
/// sweep holds back for tuning.

namespace headcount {

/// The folder holds a run, or a comparison, other than the wanted one; the message names it and
/// says what differs.
class OtherRunError : public DataError {
 public:
  using DataError::DataError;
};

/// Throws OtherRunError, with both commands, if the folder has results that `comparison` would
/// replace: with other settings, on another text, with another `match` or `sweep`, or of attentions
/// or seeds that it lacks. More attentions or seeds, and another question about the runs, continue
/// the comparison in the folder. `comparison` needs only what is known before any run. Throws
/// DataError if results.json is damaged.
void require_same_comparison(const std::filesystem::path& folder,
                             const ComparisonResult& comparison,
                             const std::vector<AttentionSpec>& specs);

/// Records the result of a finished run. Throws WriteError.
void write_run_result(const RunPlan& run, const RunResult& result);

/// Records how a run that has begun ended without a result. Does not throw: a folder that cannot be
/// written is one reason why runs fail, and another process then finds out by itself.
void write_run_failure(const RunPlan& run, const RunStatus& status, const Corpus& corpus);

/// How `run` ended, with a result or with a failure of this version of the program; none if it has
/// not ended. Throws OtherRunError if the folder holds a finished run of other settings or another
/// text, or any run of an earlier version, and DataError, naming the file, if it is damaged.
std::optional<RunStatus> read_run_status(const RunPlan& run, const Corpus& corpus);

/// Erases what earlier comparisons recorded of `run`: a result, a failure, or time taken. Throws
/// WriteError.
void forget_run(const RunPlan& run);
/// Makes a failed run unfinished again, unless another process has begun to. Throws WriteError.
void forget_failure(const RunPlan& run);

/// Records that a run which has begun has no result yet, and the time taken up to its newest
/// checkpoint, RunResult::machine_seconds. Throws WriteError, DataError.
void write_unfinished(const RunPlan& run, double machine_seconds, const Corpus& corpus);
/// The seconds of an unfinished run, so that it can resume; none unless an earlier comparison by
/// this version left `run` with these settings on this text.
std::optional<double> read_unfinished(const RunPlan& run, const Corpus& corpus);
/// Throws OtherRunError if the process that holds the folder's lock trains a run with other
/// settings or on another text.
void require_same_run(const RunPlan& run, const Corpus& corpus);

}  // namespace headcount
