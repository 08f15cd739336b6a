#include "autograd/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <vector>

namespace headcount {

namespace {

// Closes the descriptor with the object.
class OpenFile {
 public:
  // Throws DataError if the path is no file that can be read; bad_alloc if the system lacks the
  // memory.
  explicit OpenFile(const std::filesystem::path& path) : name_("'" + path.string() + "'") {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0 && (errno == ENOENT || errno == ENOTDIR))
      throw DataError("there is no file " + name_ + "; check the path");
    if (file_ < 0) fail();
    struct stat status = {};
    if (::fstat(file_, &status) < 0) {
      const int error = errno;
      ::close(file_);
      errno = error;
      fail();
    }
    if (S_ISDIR(status.st_mode)) {
      ::close(file_);
      throw DataError(name_ + " is a folder; name a file in it");
    }
    if (S_ISREG(status.st_mode)) size_ = static_cast<std::size_t>(status.st_size);
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::string& name() const { return name_; }
  // 0 for pipes, and for files whose size the system does not know.
  std::size_t size() const { return size_; }

  // Calls `take` with the bytes, piece by piece, to the end. Throws DataError for a read that fails
  // or ends before the file does: no part of a file may pass for the whole.
  template <class Take>
  void read(const Take& take) const {
    std::vector<char> piece(std::size_t{1} << 16);
    std::size_t total = 0;
    while (true) {
      const ssize_t count = ::read(file_, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      if (count == 0) break;
      total += static_cast<std::size_t>(count);
      take(std::string_view(piece.data(), static_cast<std::size_t>(count)));
    }
    if (total < size_) {
      throw DataError(name_ + " ended after " + std::to_string(total) + " of " +
                      std::to_string(size_) + " bytes; let nothing else write it");
    }
  }

 private:
  [[noreturn]] void fail() const {
    if (errno == ENOMEM) throw std::bad_alloc();
    throw DataError(name_ + " cannot be read: " + std::generic_category().message(errno) +
                    "; check its permissions");
  }

  std::string name_;
  int file_ = -1;
  std::size_t size_ = 0;
};

}  // namespace

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none) {
    throw DataError("'" + path.string() + "' cannot be read: " + error.message() +
                    "; check its permissions");
  }
  return std::filesystem::exists(status);
}

std::string read_file(const std::filesystem::path& path) {
  const OpenFile file(path);
  std::string content;
  content.reserve(file.size());
  file.read([&](std::string_view piece) { content += piece; });
  if (content.empty()) throw empty_file(path);
  return content;
}

void read_pieces(const std::filesystem::path& path,
                 const std::function<void(std::string_view)>& take) {
  OpenFile(path).read(take);
}

DataError empty_file(const std::filesystem::path& path) {
  return DataError("'" + path.string() + "' is empty; name a file with text in it");
}

}  // namespace headcount
