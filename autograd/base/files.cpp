#include "autograd/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>
#include <vector>

namespace headcount {

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
  std::string content;
  read_pieces(path, [&](std::string_view piece) { content += piece; });
  if (content.empty()) throw empty_file(path);
  return content;
}

void read_pieces(const std::filesystem::path& path,
                 const std::function<void(std::string_view)>& take) {
  const std::string name = "'" + path.string() + "'";
  const auto checked = [&](ssize_t result) {
    if (result < 0 && errno == ENOMEM) throw std::bad_alloc();
    if (result < 0)
      throw DataError(name + " cannot be read: " + std::generic_category().message(errno) +
                      "; check its permissions");
    return static_cast<std::size_t>(result);
  };
  struct File {
    int descriptor;
    ~File() { ::close(descriptor); }
  };
  const File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.descriptor < 0 && (errno == ENOENT || errno == ENOTDIR))
    throw DataError("there is no file " + name + "; check the path");
  checked(file.descriptor);
  struct stat status = {};
  checked(::fstat(file.descriptor, &status));
  if (S_ISDIR(status.st_mode)) throw DataError(name + " is a folder; name a file in it");
  std::vector<char> piece(std::size_t{1} << 16);
  std::size_t total = 0;
  while (true) {
    const ssize_t result = ::read(file.descriptor, piece.data(), piece.size());
    if (result < 0 && errno == EINTR) continue;
    const std::size_t count = checked(result);
    if (count == 0) break;
    total += count;
    take(std::string_view(piece.data(), count));
  }
  // Detects a file that was read only in part. Pipes have no size to compare with.
  if (S_ISREG(status.st_mode) && total < static_cast<std::size_t>(status.st_size)) {
    throw DataError(name + " ended after " + std::to_string(total) + " of " +
                    std::to_string(status.st_size) + " bytes; let nothing else write it");
  }
}

DataError empty_file(const std::filesystem::path& path) {
  return DataError("'" + path.string() + "' is empty; name a file with text in it");
}

}  // namespace headcount
