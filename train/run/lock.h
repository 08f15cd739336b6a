#pragma once

#include <filesystem>

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

/// Lock on a folder, exclusive or shared with all that ask for `many`: while it lives, no other
/// process gets a lock that it excludes. The kernel releases it when the process ends, however it
/// ends. On a network file system with locks it holds between machines. Readers need no lock.
/// Source: flock(2).
class FolderLock {
 public:
  /// Processes that may hold locks on a folder at a time: one, or all that ask for `many`.
  enum class Holders { one, many };

  /// Locks a folder and creates it if it is absent. Throws LockedError; WriteError; Error if the
  /// file system has no locks and they were not switched off.
  explicit FolderLock(std::filesystem::path folder, Holders holders = Holders::one);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  int file_;  // -1 where the lock was moved away
};

}  // namespace headcount
