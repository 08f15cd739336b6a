#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "autograd/real.h"

/// run.json of a run folder: the text that the run is trained on, and each start of the program.

namespace headcount {

struct RunStart {
  Index from_step = 0;
  std::string command;  ///< the whole command line
  std::string version;  ///< version_text() of the program
  std::string machine;  ///< machine_text(); empty where an older version did not record it
  Index steps = 0;      ///< of the run, as of this start; 0 where that was not recorded
};

/// The name of the file.
inline constexpr const char* kRecord = "run.json";

struct RunRecord {
  std::string data_sha256;  ///< of the text
  std::uint64_t seed = 0;
  /// Of the first start: what relative paths among the settings are of; empty if it is unknown.
  std::string working_directory = {};
  std::vector<RunStart> starts;
};

/// Of the run in `folder`. Throws DataError, naming the file.
RunRecord read_run_record(const std::filesystem::path& folder);

/// Writes run.json with one more start, of this program, of a run of so many steps; the first one
/// says where it is. Throws WriteError.
void record_start(const std::filesystem::path& folder, RunRecord record, Index from_step,
                  Index steps, const std::string& command);

}  // namespace headcount
