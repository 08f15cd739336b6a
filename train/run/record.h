#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/real.h"
#include "train/options.h"
#include "train/show/fields.h"

namespace headcount {

struct RunStart {
  Index from_step = 0;
  std::string command;  ///< the whole command line
  std::string version;  ///< version_text() of the program
  std::string machine;  ///< machine_text(); empty if an older version wrote the record

  static void fields(auto& io, auto& s) {
    io(Presence::required, "from_step", s.from_step, "command", s.command, "version", s.version);
    io({}, "machine", s.machine);
  }
};

/// File name of a run's record.
inline constexpr const char* kRecord = "run.json";

/// run.json of a run folder: what the run is, each start of the program and, in a comparison, how
/// the run ended. The file is written whole or not at all, by the process that has the folder's
/// lock; readers need none.
struct RunRecord {
  /// Values of `status`; a run that no comparison trains has none.
  static constexpr const char *kUnfinished = "unfinished", *kFinished = "finished",
                              *kFailed = "failed", *kDiverged = "diverged";

  nlohmann::ordered_json settings;  ///< to_json of its TrainOptions
  std::string data_sha256;          ///< hash of the text
  Index tuning_characters = 0;      ///< of the training text, held back by a comparison's sweep
  std::string version;  ///< version_text() of the last writer; empty if an older version wrote it
  /// Working directory of the first start, to which relative paths in the settings refer; empty if
  /// it is not known.
  std::string working_directory = {};
  std::vector<RunStart> starts;
  std::string status;
  std::optional<double> machine_seconds;  ///< taken up to the newest checkpoint, if unfinished
  std::string failure;                    ///< why the run has no result
  nlohmann::ordered_json result;          ///< of a finished run: train/compare/comparison.h

  static void fields(auto& io, auto& s) {
    io({}, "settings", s.settings);
    io(Presence::required, "data_sha256", s.data_sha256);
    io({}, "tuning_characters", s.tuning_characters, "version", s.version);
    io(Presence::known, "working_directory", s.working_directory);
    io(Presence::required, "starts", s.starts);
    io(Presence::known, "status", s.status, "machine_seconds", s.machine_seconds, "failure",
       s.failure, "result", s.result);
  }
};

/// Reads run.json of the run in `folder`. Throws DataError, naming the file.
RunRecord read_run_record(const std::filesystem::path& folder);

/// Writes `record`, with the version of this program. Throws WriteError.
void write_run_record(const std::filesystem::path& folder, RunRecord record);

/// Adds a start of the program, at `from_step` by `command`, to `record` of the run with `options`,
/// and writes it. Throws WriteError.
void record_start(const std::filesystem::path& folder, RunRecord record,
                  const TrainOptions& options, Index from_step, const std::string& command);

}  // namespace headcount
