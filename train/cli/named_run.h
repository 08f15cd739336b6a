#pragma once

#include <string>
#include <vector>

#include "train/cli/command_line.h"
#include "train/run/loaded.h"

namespace headcount {

/// The run that --from names. Throws UsageError if there is no --from, DataError.
LoadedRun load_named_run(const CommandLine& line);

/// The text of a flag, which must not be empty, in the run's tokens. Throws UsageError and
/// DataError, whose messages name the flag.
std::vector<std::int32_t> encode_flag(const CommandLine& line, const std::string& flag,
                                      const Vocabulary& vocabulary);

}  // namespace headcount
