#include "train/run/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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

// Returns true if `path` still names the open file: its last holder may have removed it.
bool is_named(int file, const fs::path& path) {
  struct stat opened {
  }, named{};
  return fstat(file, &opened) == 0 && stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// Closes the file and throws.
template <class Failure>
[[noreturn]] void fail(int file, const Failure& failure) {
  close(file);
  throw failure;
}

bool is_locked(int file, int operation) {
  std::size_t no_bytes = 0;
  return !is_made_to_fail("flock", no_bytes) && flock(file, operation | LOCK_NB) == 0;
}

int lock(const fs::path& folder, FolderLock::Holders holders) {
  make_folder(folder);
  const fs::path path = folder / kLockFile;
  while (true) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file < 0) throw WriteError(path, errno);
    const int kind = holders == FolderLock::Holders::one ? LOCK_EX : LOCK_SH;
    if (!locks_are_used) return file;
    if (is_locked(file, kind)) {
      if (is_named(file, path)) return file;
      close(file);
      continue;
    }
    if (errno == EWOULDBLOCK) {
      fail(file, LockedError(folder.string() + " is in use by " + holder(file) +
                             "; wait until that ends, or name another folder"));
    }
    fail(
        file,
        Error(
            "cannot lock " + folder.string() + ": " + std::generic_category().message(errno) +
            "; this file system has no locks: name a folder on another one or, if no other process "
            "writes to this one, set `lock` off"));
  }
}

}  // namespace

void use_folder_locks(bool on) { locks_are_used = on; }

FolderLock::FolderLock(fs::path folder, Holders holders)
    : folder_(std::move(folder)), file_(lock(folder_, holders)) {
  const std::string text = this_process();
  if (ftruncate(file_, 0) != 0 || pwrite(file_, text.data(), text.size(), 0) < 0)
    fail(file_, WriteError(folder_ / kLockFile, errno));
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : folder_(std::move(other.folder_)), file_(std::exchange(other.file_, -1)) {}

FolderLock::~FolderLock() {
  if (file_ < 0) return;
  // The last holder removes the file while it holds the lock alone. A process that has opened the
  // file meanwhile finds that it has no name any more.
  const fs::path path = folder_ / kLockFile;
  const bool last = !locks_are_used || is_locked(file_, LOCK_EX);
  if (last && is_named(file_, path)) unlink(path.c_str());
  close(file_);
}

}  // namespace headcount
