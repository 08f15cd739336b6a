#include "models/checkpoint/durable.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

namespace headcount {
namespace {

namespace fs = std::filesystem;

constexpr mode_t file_mode = 0666;  // less the umask, as everywhere
constexpr mode_t folder_mode = 0777;

// "runs/a/" and "runs/a" are one folder; only the second has a file name.
fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Repeats a call that a signal interrupted; throws on any other failure.
template <class Call>
auto checked(const fs::path& path, const Call& call) {
  while (true) {
    const auto result = call();
    if (result >= 0) return result;
    if (errno != EINTR) throw WriteError(path, errno);
  }
}

int open_file(const fs::path& path, int flags) {
  return checked(path,
                 [&] { return system_calls().open(path.c_str(), flags | O_CLOEXEC, file_mode); });
}

// Linux frees the descriptor even where close reports EINTR: a second close could close a file that
// another thread has opened since.
void close_file(int file, const fs::path& path) {
  if (system_calls().close(file) < 0 && errno != EINTR) throw WriteError(path, errno);
}

// Flushes a file or a folder that is already there.
void flush(const fs::path& path, bool is_folder) {
  const int file = open_file(path, O_RDONLY);
  try {
    checked(path, [&] {
      const int result = system_calls().fsync(file);
      // Some network file systems cannot flush a folder, and need not: they keep names at once.
      return is_folder && result < 0 && errno == EINVAL ? 0 : result;
    });
  } catch (...) {
    system_calls().close(file);
    throw;
  }
  close_file(file, path);
}

// Flushes children before their folder, so that a folder on the disk never names a file that is not
// there.
void flush_tree(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      flush_tree(entry.path());
    } else {
      flush(entry.path(), false);
    }
  }
  flush(folder, true);
}

// The path that the user knows for `path`, which may be, or lie in, the staging folder of
// `final_path`.
fs::path published_name(const fs::path& path, const fs::path& staging, const fs::path& final_path) {
  const fs::path relative = path.lexically_relative(staging);
  if (relative.empty() || *relative.begin() == "..") return path;
  return relative == "." ? final_path : final_path / relative;
}

// Calls `make` with a name beside `path` and moves what it made there to `path`.
template <class Make>
void publish(const fs::path& path, const Make& make) {
  // In the same folder, hence on the same disk, because rename does not cross disks. A fixed name,
  // so that what a crash left behind is replaced by the next attempt instead of piling up.
  fs::path staging = folder_of(path) / ".";
  staging += path.filename();
  staging += ".partial";
  // An error of the removal is not reported: the error that led to it is.
  const auto remove_staging = [&staging] {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
  };
  remove_staging();
  try {
    make(staging);
    checked(path, [&] { return system_calls().rename(staging.c_str(), path.c_str()); });
  } catch (const WriteError& error) {
    remove_staging();
    throw WriteError(published_name(error.path(), staging, path), error.error_number());
  } catch (...) {
    remove_staging();
    throw;
  }
  try {
    flush(folder_of(path), true);
  } catch (const WriteError& error) {
    throw WriteError(path, error.error_number());
  }
}

}  // namespace

WriteError::WriteError(const fs::path& path, int error_number)
    : Error("cannot write " + path.string() + ": " + std::generic_category().message(error_number) +
            (error_number == EFBIG ? "; raise the limit that ulimit -f shows" : "")),
      path_(path),
      error_number_(error_number) {}

SystemCalls& system_calls() {
  static SystemCalls calls{
      .open = [](const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); },
      .write = ::write,
      .fsync = ::fsync,
      .close = ::close,
      .rename = [](const char* from, const char* to) { return std::rename(from, to); },
      .mkdir = ::mkdir,
      .flock = ::flock,
  };
  return calls;
}

DurableFile::DurableFile(fs::path path)
    : path_(std::move(path)), file_(open_file(path_, O_WRONLY | O_CREAT | O_TRUNC)) {}

DurableFile::DurableFile(fs::path path, std::uint64_t bytes)
    : path_(std::move(path)), file_(open_file(path_, O_WRONLY | O_CREAT | O_APPEND)) {
  if (::ftruncate(file_, static_cast<off_t>(bytes)) < 0) {
    const int error = errno;
    system_calls().close(file_);
    throw WriteError(path_, error);
  }
}

DurableFile::~DurableFile() {
  if (file_ >= 0) system_calls().close(file_);
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count =
        checked(path_, [&] { return system_calls().write(file_, bytes.data(), bytes.size()); });
    // A call that writes nothing and reports no error would be repeated for ever.
    if (count == 0) throw WriteError(path_, EIO);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void DurableFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void DurableFile::flush() {
  checked(path_, [&] { return system_calls().fsync(file_); });
}

void DurableFile::close() {
  flush();
  close_file(std::exchange(file_, -1), path_);
}

void write_file_durably(const fs::path& path, std::string_view bytes) {
  publish(path, [&](const fs::path& staging) {
    DurableFile file(staging);
    file.write(bytes);
    file.close();
  });
}

void publish_folder(const fs::path& path,
                    const std::function<void(const fs::path& staging)>& fill) {
  const fs::path final_path = without_trailing_slash(path);
  // rename would silently take the place of an empty folder.
  std::error_code unreadable;
  if (fs::exists(fs::symlink_status(final_path, unreadable))) throw WriteError(final_path, EEXIST);
  publish(final_path, [&](const fs::path& staging) {
    checked(staging, [&] { return system_calls().mkdir(staging.c_str(), folder_mode); });
    fill(staging);
    try {
      flush_tree(staging);
    } catch (const fs::filesystem_error& error) {
      throw WriteError(error.path1(), error.code().value());
    }
  });
}

}  // namespace headcount
