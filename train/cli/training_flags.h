#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/cli/command_line.h"
#include "train/cli/progress.h"
#include "train/options.h"

namespace headcount {

/// Text that runs and comparisons take by default.
inline constexpr const char* kDefaultData = "recall";

/// Settings of commands that train besides those of training; none of them changes a result.
SettingList run_settings();
/// Applies `lock` of the `run_settings` and returns how progress is shown.
ProgressMode use_run_settings(const Given& given);

/// Puts the settings of --preset or --config into `given`. Without a preset, the defaults of the
/// data come first, unless the model comes from --init. What the attention of the configuration
/// settled is left out if `is_another`, which takes it, returns true. Throws UsageError, also if
/// both flags are given, SettingError, and DataError for an unusable file.
void put_preset_or_config(const CommandLine& line, Given& given,
                          const std::function<bool(const std::string&)>& is_another);

/// The options of a new run. With --init its model is that of the folder, and preset, configuration
/// and flags may repeat the settings of that model, but change only those of UseOfWeights::start.
TrainOptions new_options(const CommandLine& line);
/// The options of the run that --resume names. Other flags may repeat its settings, raise its
/// steps, unless it is one of a comparison, and name new paths of the files of its text. Throws
/// UsageError for all else.
TrainOptions resumed_options(const CommandLine& line);

/// Throws UsageError for a setting of training that was given as a flag and has no effect in any of
/// `runs`, or has another value in each of them.
void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs);
/// Throws UsageError for the first setting in the words of `spec`, the attention of `model`, that
/// has no effect on its layer, such as canon-taps in mha:canon-taps=9 without Canon layers.
void refuse_idle_words(const std::string& spec, const ResolvedModel& model);

}  // namespace headcount
