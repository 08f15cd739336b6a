#pragma once

#include <filesystem>

#include "autograd/error.h"

namespace headcount {

/// The name of the file that a locked folder has in it.
inline constexpr const char* kLockFile = ".headcount-lock";

/// Another process writes the folder; the message says which one, where and since when.
class LockedError : public Error {
 public:
  using Error::Error;
};

/// Whether folders are locked from now on, as they are at first. Off, for file systems that cannot:
/// whoever starts two processes in one folder must keep them apart. Before there are other threads.
void use_folder_locks(bool on);

/// While it lives, no other process that asks for a lock gets one on the same folder. The kernel
/// keeps it and releases it when the process ends, however that ends; on a network file system that
/// has locks it holds between machines. Readers need none.
/// Source: flock(2).
class FolderLock {
 public:
  /// Who may hold locks on a folder at a time: one process, or all that ask for this.
  enum class Holders { one, many };

  /// Locks a folder, which it makes if it is not there. Throws LockedError; WriteError; Error where
  /// the file system has no locks and they were not switched off.
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
