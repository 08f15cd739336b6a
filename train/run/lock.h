#pragma once

#include <filesystem>
#include <memory>

#include "autograd/base/error.h"

namespace headcount {

/// Name of the lock file in a locked folder.
inline constexpr const char* kLockFile = ".headcount-lock";

/// Thrown if another process holds the folder's lock. The message says which one, on which machine
/// and since when.
class LockedError : public Error {
 public:
  using Error::Error;
};

/// Switches locking of folders on (the default) or off, for file systems without locks. With locks
/// off, nothing keeps two processes in one folder apart. Call it before other threads start.
void use_folder_locks(bool on);

/// Lock on a folder, which no lock that excludes it can join. The kernel releases it when the last
/// copy is gone or the process ends, however it ends. On a network file system with locks it holds
/// between machines. Its file stays in the folder and locks nothing by itself. Readers need no
/// lock. Source: flock(2).
class FolderLock {
 public:
  enum class Holders {
    one,      ///< excludes all others
    many,     ///< excludes all but those that ask for `many`
    in_turn,  ///< as `one`, but waits for the others instead of throwing LockedError
  };

  /// Locks a folder and creates it if it is absent. Throws LockedError; WriteError; Error if the
  /// file system has no locks and they were not switched off.
  explicit FolderLock(std::filesystem::path folder, Holders holders = Holders::one);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const int> file_;
};

}  // namespace headcount
