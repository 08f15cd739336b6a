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

/// Writes the result of a finished run. `basis` is what it depends on besides its settings,
/// `sharing` how the machine was shared. Throws WriteError.
void write_run_result(const PlannedRun& run, const RunResult& result, const nlohmann::json& basis,
                      const std::string& sharing);

/// The result that an earlier comparison left, if it finished `run`. Throws OtherRunError if that
/// run had other settings or another basis, and DataError, naming the file, for a damaged one.
std::optional<RunResult> read_run_result(const PlannedRun& run, const nlohmann::json& basis);

}  // namespace headcount
