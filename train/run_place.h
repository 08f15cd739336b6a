#pragma once

#include <filesystem>

#include "train/folder_lock.h"
#include "train/options.h"

namespace headcount {

/// In checkpoints/: what is about to be removed, and what is about to take the place of another.
inline constexpr const char *kRemoved = ".removed", *kAgain = ".again";

/// In the folder of a run of a comparison: see train/compare/run_result.h.
inline constexpr const char *kResult = "result.json", *kUnfinished = "unfinished.json";

/// Removes a file, or a folder with all that is in it. Throws WriteError.
void erase(const std::filesystem::path& path);

/// Makes runs/DATA-ATTENTION, or with -2, -3, ... the first that did not exist: no two processes
/// get the same. Throws WriteError.
std::filesystem::path new_run_folder(const TrainOptions& options);

/// Throws SettingError if `--out` names a file or a folder that cannot be read.
void check_out_folder(const std::filesystem::path& path);

/// Locks the folder of a run that starts at step 0, and makes it if it is not there. Throws
/// SettingError if anything is in it, unless it is a run and `force` is set: then what runs write
/// is removed, and nothing else. Throws LockedError, WriteError.
FolderLock lock_for_new_run(const std::filesystem::path& path, bool force);

}  // namespace headcount
