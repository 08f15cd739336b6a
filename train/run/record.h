#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "autograd/base/real.h"
#include "train/show/fields.h"

/// run.json of a run folder: the text that the run is trained on, and each start of the program.

namespace headcount {

struct RunStart {
  Index from_step = 0;
  std::string command;  ///< the whole command line
  std::string version;  ///< version_text() of the program
  std::string machine;  ///< machine_text(); empty if an older version wrote the record
  Index steps = 0;      ///< steps of the run, as of this start; 0 if not recorded

  static void fields(auto& io, auto& s) {
    io(Presence::required, "from_step", s.from_step, "command", s.command, "version", s.version);
    io({}, "machine", s.machine, "steps", s.steps);
  }
};

/// File name of a run's record.
inline constexpr const char* kRecord = "run.json";

struct RunRecord {
  std::string data_sha256;  ///< hash of the text
  std::uint64_t seed = 0;
  /// Working directory of the first start, to which relative paths in the settings refer; empty if
  /// it is not known.
  std::string working_directory = {};
  std::vector<RunStart> starts;

  static void fields(auto& io, auto& s) {
    io(Presence::required, "data_sha256", s.data_sha256, "seed", s.seed);
    io(Presence::known, "working_directory", s.working_directory);
    io(Presence::required, "starts", s.starts);
  }
};

/// Reads run.json of the run in `folder`. Throws DataError, naming the file.
RunRecord read_run_record(const std::filesystem::path& folder);

/// Writes run.json: `record` and one more start, of this program at `from_step`, for a run of
/// `steps` steps. The first start also records the working directory. Throws WriteError.
void record_start(const std::filesystem::path& folder, RunRecord record, Index from_step,
                  Index steps, const std::string& command);

}  // namespace headcount
