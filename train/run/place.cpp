#include "train/run/place.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/durable.h"
#include "train/run/record.h"

namespace headcount {

namespace fs = std::filesystem;

namespace {

// Name without the marks of a staging file, which a crash may leave: "run.json" for "run.json" and
// for ".run.json.partial". See models/checkpoint/durable.h.
std::string final_name(const fs::path& path) {
  constexpr std::string_view kPartial = ".partial";
  const std::string name = path.filename();
  return name.starts_with('.') && name.ends_with(kPartial)
             ? name.substr(1, name.size() - 1 - kPartial.size())
             : name;
}

// Names that runs write into their folder, the files of earlier versions among them, in the order
// in which they are removed: without run.json the rest is not recognised as a run.
constexpr const char* kNames[] = {kCheckpoints,  "samples",      "metrics.jsonl",
                                  "config.json", "result.json",  "unfinished.json",
                                  "failed.json", "rounded.json", kRecord};

// Throws SettingError if a run's folder has an entry that no run writes.
void require_no_others(const fs::path& path) {
  for (const fs::path& entry : entries_of(path)) {
    const std::string name = final_name(entry);
    if (name == kLockFile || std::ranges::count(kNames, name) > 0) continue;
    throw SettingError("`out` {} has {}, which no run writes; move it away, or name a new folder",
                       path.string(), entry.filename().string());
  }
}

void remove_run(const fs::path& path) {
  for (const std::string name : kNames) {
    erase(path / name);
    erase(path / ("." + name + ".partial"));
  }
}

// Returns true if a folder has nothing in it but what a start that failed may have left: the lock
// file and an unfinished copy of run.json.
bool holds_nothing(const fs::path& path) {
  return std::ranges::all_of(entries_of(path), [](const fs::path& entry) {
    return entry.filename() == kLockFile ||
           (final_name(entry) == kRecord && entry.filename() != kRecord);
  });
}

// Returns true if a folder holds a run of this program: its record says so.
bool is_run(const fs::path& path) {
  try {
    read_run_record(path);
    return true;
  } catch (const DataError&) {
    return false;
  }
}

// Throws SettingError unless a run may start in `path`.
void check_place(const fs::path& path, EarlierRun earlier) {
  check_out_folder(path);
  std::error_code error;
  if (!fs::exists(path, error) || holds_nothing(path)) return;
  const std::string name = "`out` " + path.string() + " is not empty";
  if (!is_run(path)) {
    throw SettingError("{} and holds no run that `force` may replace; name a new folder", name);
  }
  if (earlier == EarlierRun::replace) return require_no_others(path);
  throw SettingError(
      "{}; name a new folder, add `force` to replace the run in it, or continue that run by "
      "`resume` {}",
      name, shell_word(path.string()));
}

}  // namespace

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw WriteError(path, error.value());
}

void erase(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw WriteError(path, error.value());
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code none;
  const fs::path outer = fs::weakly_canonical(folder, none);
  fs::path place = fs::weakly_canonical(path, none);
  while (place.has_relative_path() && place != outer) place = place.parent_path();
  return place == outer;
}

fs::path new_run_folder(const TrainOptions& options) {
  const fs::path parent = "runs";
  make_folder(parent);
  const std::string name =
      fs::path(options.data).stem().string() + "-" + file_name_of(options.model->word);
  for (int i = 1;; ++i) {
    fs::path path = parent / (i == 1 ? name : name + "-" + std::to_string(i));
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) throw WriteError(path, errno);
  }
}

void check_out_folder(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const std::string name = "`out` " + path.string();
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() != fs::file_type::none) {
    if (!fs::is_directory(status)) throw SettingError("{} is a file; name a new folder", name);
    fs::directory_iterator(path, error);
  }
  if (error) throw SettingError("{} cannot be read: {}; name another", name, error.message());
}

void check_place_of_results(const fs::path& folder) {
  check_out_folder(folder);
  if (!is_there(folder)) return;
  if (is_there(folder / kRecord)) {
    throw SettingError("`out` {} is the folder of a run; name another folder", folder.string());
  }
  // What a comparison leaves beside its results, which may be damaged or gone.
  if (is_there(folder / kLockFile) && is_there(folder / kRuns)) return;
  for (const char* name : {kResults, kReport}) {
    if (is_there(folder / name))
      throw SettingError("`out` {} has a {} that no comparison wrote there; name another folder",
                         folder.string(), name);
  }
}

FolderLock lock_for_new_run(const fs::path& path, EarlierRun earlier) {
  check_place(path, earlier);
  FolderLock lock(path);
  make_room(lock, earlier);
  return lock;
}

void make_room(const FolderLock& folder, EarlierRun earlier) {
  const fs::path& path = folder.folder();
  check_place(path, earlier);
  if (is_run(path)) remove_run(path);
}

}  // namespace headcount
