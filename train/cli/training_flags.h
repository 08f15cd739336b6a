#pragma once

#include <vector>

#include "train/cli/command_line.h"
#include "train/cli/progress.h"
#include "train/options.h"

namespace headcount {

/// What commands that train take besides TrainOptions; none of it changes a result.
struct RunOptions {
  Index threads = 0;
  ProgressMode progress = ProgressMode::automatic;
  bool lock = true;

  void add_to(Settings& settings);
};

/// Throws UsageError for a path among the flags that is empty, or not UTF-8: records and JSON are.
void check_paths(const CommandLine& line);

/// Reads `--preset` and `--config`, in that order, into `settings`; without a preset, the defaults
/// of the data come first, unless the model comes from --init. Throws UsageError, SettingError, and
/// DataError for an unusable file.
void read_preset_and_config(const CommandLine& line, Settings& settings);

/// Throws UsageError for a flag of TrainOptions that was given and means nothing to any of `runs`,
/// which are resolved, or that each of them has another value of.
void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs);

}  // namespace headcount
