#pragma once

#include <vector>

#include "train/cli/command_line.h"
#include "train/cli/progress.h"
#include "train/options.h"

namespace headcount {

/// What commands that train take besides the settings of training; none of it changes a result.
struct RunOptions {
  Index threads = 0;
  ProgressMode progress = ProgressMode::automatic;
  bool lock = true;
};
SettingList run_settings();
RunOptions read_run_options(const Given& given);

/// Throws UsageError for a path among the flags that is empty, or not UTF-8: records and JSON are.
void check_paths(const CommandLine& line);

/// Puts what `--preset` and `--config` say, in that order, into `given`; without a preset, the
/// defaults of the data come first, unless the model comes from --init. Throws UsageError,
/// SettingError, and DataError for an unusable file.
void put_preset_and_config(const CommandLine& line, Given& given);

/// Throws UsageError for a setting of training that was given as a flag and means nothing to any of
/// `runs`, or that each of them has another value of.
void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs);

}  // namespace headcount
