#include "train/run/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include "autograd/base/text.h"
#include "models/checkpoint/durable.h"
#include "train/run/place.h"

namespace headcount {

namespace fs = std::filesystem;

namespace {

bool locks_are_used = true;

// Text of the lock file, which says who holds the lock: "process 7 on host since 2026-01-31
// 12:00:00 UTC".
std::string this_process() {
  std::array<char, 256> host{}, time{};
  gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &utc));
  return formatted("process %d on %s since %s", getpid(), host.data(), time.data());
}

std::string holder(int file) {
  std::array<char, 512> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  const std::string read(text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size)));
  // The holder may not have written its text yet.
  const bool whole = !read.empty() && std::ranges::all_of(read, [](char c) { return c >= ' '; });
  return whole ? read : "another process";
}

bool is_locked(int file, int operation) {
  std::size_t no_bytes = 0;
  return !is_made_to_fail("flock", no_bytes) && flock(file, operation) == 0;
}

int operation_of(FolderLock::Holders holders) {
  if (holders == FolderLock::Holders::in_turn) return LOCK_EX;
  return (holders == FolderLock::Holders::one ? LOCK_EX : LOCK_SH) | LOCK_NB;
}

std::shared_ptr<const int> opened(const fs::path& path) {
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) throw WriteError(path, errno);
  return {new int(file), [](const int* open) {
            close(*open);
            delete open;
          }};
}

}  // namespace

void use_folder_locks(bool on) { locks_are_used = on; }

FolderLock::FolderLock(fs::path folder, Holders holders) : folder_(std::move(folder)) {
  make_folder(folder_);
  file_ = opened(folder_ / kLockFile);
  if (locks_are_used && !is_locked(*file_, operation_of(holders))) {
    if (errno == EWOULDBLOCK) {
      throw LockedError("{} is in use by {}; wait until that ends, or name another folder",
                        folder_.string(), holder(*file_));
    }
    throw Error(
        "cannot lock {}: {}; this file system has no locks: name a folder on another one or, if no "
        "other process writes to this one, set `lock` off",
        folder_.string(), std::generic_category().message(errno));
  }
  // One name would be wrong where several processes hold the lock.
  const std::string text = holders == Holders::many ? "" : this_process();
  if (ftruncate(*file_, 0) != 0 || pwrite(*file_, text.data(), text.size(), 0) < 0)
    throw WriteError(folder_ / kLockFile, errno);
}

}  // namespace headcount
