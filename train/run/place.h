#pragma once

#include <filesystem>

#include "train/options.h"
#include "train/run/lock.h"

namespace headcount {

/// Files in the folder of a comparison.
inline constexpr const char *kResults = "results.json", *kReport = "report.html", *kRuns = "runs";

/// Creates a folder and its parents, if they are absent. Throws WriteError.
void make_folder(const std::filesystem::path& path);
/// Removes a file, or a folder with all its contents. Throws WriteError.
void erase(const std::filesystem::path& path);

/// Returns true if `path` is `folder` or lies below it, links followed.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

/// Creates runs/DATA-ATTENTION or, if it exists, the first of runs/DATA-ATTENTION-2, -3, ... that
/// does not. Two processes never get one folder. Throws WriteError.
std::filesystem::path new_run_folder(const TrainOptions& options);

/// Throws SettingError if the setting `out` names a file or a folder that cannot be read.
void check_out_folder(const std::filesystem::path& path);

/// Throws SettingError as check_out_folder does, and if the results of a comparison would replace
/// files that no comparison wrote, or if a run lies there.
void check_place_of_results(const std::filesystem::path& folder);

/// What becomes of an earlier run in the folder of a new one: the new run is refused, or replaces
/// it, with all that lies in its checkpoints/ and samples/. A folder with other files beside those
/// of a run is never touched.
enum class EarlierRun { keep, replace };

/// Locks the folder of a run that starts at step 0, and creates it if it is absent. Throws
/// LockedError, WriteError, and what make_room throws.
FolderLock lock_for_new_run(const std::filesystem::path& path, EarlierRun earlier);
/// Removes an earlier run from a locked folder. Throws SettingError if the folder is not empty,
/// unless it holds a run that is to be replaced. Throws WriteError.
void make_room(const FolderLock& folder, EarlierRun earlier);

}  // namespace headcount
