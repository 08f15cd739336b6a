#include "models/checkpoint/durable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "autograd/base/system.h"

namespace headcount {
namespace {

namespace fs = std::filesystem;

// Makes a system call with at most `bytes` bytes, again if a signal interrupted it; throws on any
// other failure.
template <class Call>
auto checked(const fs::path& path, std::string_view name, const Call& call,
             const std::size_t bytes = 0) {
  while (true) {
    std::size_t allowed = bytes;
    const bool fails = is_made_to_fail(name, allowed);
    const decltype(call(allowed)) result = fails ? -1 : call(allowed);
    if (result >= 0) return result;
    if (errno != EINTR) throw WriteError(path, errno);
  }
}

int open_file(const fs::path& path, int flags) {
  constexpr mode_t kMode = 0666;  // less the umask
  return checked(path, "open",
                 [&](std::size_t) { return ::open(path.c_str(), flags | O_CLOEXEC, kMode); });
}

void flush_file(const fs::path& path, int file) {
  try {
    checked(path, "fsync", [&](std::size_t) { return flush_to_disk(file); });
  } catch (const WriteError& error) {
    // Some network file systems cannot flush a folder, and need not: they store names at once.
    if (error.error_number() != EINVAL) throw;
  }
}

// Flushes a folder: the names in it.
void flush(const fs::path& path) {
  const struct File {
    int descriptor;
    ~File() { ::close(descriptor); }
  } file{open_file(path, O_RDONLY)};
  flush_file(path, file.descriptor);
}

struct Removed {
  fs::path path;

  ~Removed() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

// Calls `make` with a name beside `path` and moves what it made there to `path`.
template <class Make>
void publish(const fs::path& path, const Make& make) {
  // The staging name is in the same folder, because rename does not cross disks. It is always the
  // same, so that the next attempt replaces what a crash left behind.
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const fs::path staging = parent / ("." + path.filename().string() + ".partial");
  std::error_code ignored;
  fs::remove_all(staging, ignored);
  const Removed removed{staging};  // removes `staging` if it was not renamed
  try {
    make(staging);
    checked(path, "rename",
            [&](std::size_t) { return std::rename(staging.c_str(), path.c_str()); });
    flush(parent);
  } catch (const WriteError& error) {
    const fs::path inside = error.path().lexically_relative(staging);
    const bool is_inside = !inside.empty() && inside != "." && *inside.begin() != "..";
    throw WriteError(is_inside ? path / inside : path, error.error_number());
  }
}

}  // namespace

WriteError::WriteError(const fs::path& path, int error_number)
    : Error("cannot write {}: {}{}", path.string(), std::generic_category().message(error_number),
            (error_number == EFBIG ? "; raise the limit that ulimit -f shows" : "")),
      path_(path),
      error_number_(error_number) {}

std::function<int(std::string_view call, std::size_t& bytes)>& before_system_call() {
  static std::function<int(std::string_view call, std::size_t & bytes)> hook;
  return hook;
}

bool is_made_to_fail(std::string_view call, std::size_t& bytes) {
  const int error = before_system_call() ? before_system_call()(call, bytes) : 0;
  if (error != 0) errno = error;
  return error != 0;
}

DurableFile::DurableFile(fs::path path, std::uint64_t kept)
    : path_(std::move(path)), file_(open_file(path_, O_WRONLY | O_CREAT | O_APPEND)) {
  // A device or pipe has no length to cut.
  if (::ftruncate(file_, static_cast<off_t>(kept)) == 0 || (errno == EINVAL && kept == 0)) return;
  const WriteError error(path_, errno);
  ::close(file_);
  throw error;
}

DurableFile::~DurableFile() { ::close(file_); }

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = checked(
        path_, "write", [&](std::size_t most) { return ::write(file_, bytes.data(), most); },
        bytes.size());
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void DurableFile::flush() { flush_file(path_, file_); }

void write_file_durably(const fs::path& path, std::string_view bytes) {
  const auto write = [&](const fs::path& to) {
    DurableFile file(to);
    file.write(bytes);
    file.flush();
  };
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (error == std::errc::too_many_symbolic_link_levels) throw WriteError(path, error.value());
  if (fs::exists(found) && !fs::is_regular_file(found)) return write(path);
  fs::path target = path;
  while (fs::is_symlink(fs::symlink_status(target, error)))
    target = target.parent_path() / fs::read_symlink(target);
  publish(target, write);
}

void publish_folder(const fs::path& path,
                    const std::function<void(const fs::path& staging)>& fill) {
  // "runs/a/" and "runs/a" are one folder; only the second has a file name.
  const fs::path final_path = path.has_filename() ? path : path.parent_path();
  // rename would silently replace an empty folder.
  std::error_code unreadable;
  if (fs::exists(fs::symlink_status(final_path, unreadable))) throw WriteError(final_path, EEXIST);
  publish(final_path, [&](const fs::path& staging) {
    constexpr mode_t kMode = 0777;  // less the umask
    checked(staging, "mkdir", [&](std::size_t) { return ::mkdir(staging.c_str(), kMode); });
    fill(staging);
    flush(staging);
  });
}

}  // namespace headcount
