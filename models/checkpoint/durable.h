#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "autograd/base/error.h"

/// Files that survive a crash: a reader of a path finds, at any moment, the old contents or the new
/// ones, whole. Source: rename(2) replaces atomically, and neither a file nor its name is on the
/// disk before fsync(2) of the file and of the folder that holds the name.

namespace headcount {

/// A file or folder could not be written, for example on a full disk. `what()` reads "cannot write
/// runs/a/config.json: No space left on device".
class WriteError : public Error {
 public:
  /// `error_number` is an errno.
  WriteError(const std::filesystem::path& path, int error_number);

  const std::filesystem::path& path() const { return path_; }
  int error_number() const { return error_number_; }

 private:
  std::filesystem::path path_;
  int error_number_;
};

/// Hook for tests, called before each system call that writes or locks, with its name. Returns the
/// errno with which the call fails instead, or 0; of a write, it may lower the number of `bytes`.
/// Set it only while no other thread writes files.
std::function<int(std::string_view call, std::size_t& bytes)>& before_system_call();

/// Asks `before_system_call`: true, and errno, if the call fails.
bool is_made_to_fail(std::string_view call, std::size_t& bytes);

/// File that is written front to back and is on the disk once `flush` has returned.
class DurableFile {
 public:
  /// Opens a file to append after its first `kept` bytes and cuts off the rest; creates it if it is
  /// absent. Throws WriteError.
  explicit DurableFile(std::filesystem::path path, std::uint64_t kept = 0);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  /// Appends all of `bytes`. Throws WriteError.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Flushes to the disk what was written so far. Throws WriteError.
  void flush();

 private:
  std::filesystem::path path_;
  int file_;
};

/// Replaces the file at `path`, or creates it, atomically: writes ".NAME.partial" beside it and
/// renames that. A symbolic link stays, and its target is replaced; a device or pipe is written
/// into. The folder must exist; one writer of a path at a time. Throws WriteError; then a file has
/// its old contents, or the new ones if only the last flush of the folder failed.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

/// Creates the folder `path` with everything in it, atomically: calls `fill` with an empty staging
/// folder ".NAME.partial" beside it, flushes that and renames it. `fill` writes its files by
/// write_file_durably, or as flushed DurableFiles. The parent must exist and `path` must not;
/// one writer of a path at a time. Throws WriteError, which names files by their final path, and
/// whatever `fill` throws; then `path` is absent, or complete if only the last flush of the parent
/// failed.
void publish_folder(const std::filesystem::path& path,
                    const std::function<void(const std::filesystem::path& staging)>& fill);

}  // namespace headcount
