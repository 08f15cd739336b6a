#include "autograd/base/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <system_error>

namespace headcount {

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none) {
    throw DataError("'{}' cannot be read: {}; check its permissions", path.string(),
                    error.message());
  }
  return std::filesystem::exists(status);
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    paths.push_back(entry->path());
  if (error) throw DataError("{} cannot be read: {}", folder.string(), error.message());
  std::ranges::sort(paths);
  return paths;
}

std::string read_bytes(const std::filesystem::path& path) {
  const std::string name = "'" + path.string() + "'";
  if (!is_there(path)) throw DataError("there is no file {}; check the path", name);
  if (std::filesystem::is_directory(path))
    throw DataError("{} is a folder; name a file in it", name);
  std::ifstream file(path, std::ios::binary);
  std::string content;
  std::error_code unknown;  // of a pipe
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  if (!unknown) content.reserve(size);
  for (std::array<char, std::size_t{1} << 13> piece; file;) {
    file.read(piece.data(), std::ssize(piece));
    content.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) {
    throw DataError("{} cannot be read: {}; check its permissions", name,
                    std::generic_category().message(errno));
  }
  return content;
}

std::string read_file(const std::filesystem::path& path) {
  std::string content = read_bytes(path);
  if (content.empty()) throw DataError("'{}' is empty; name a file with text in it", path.string());
  return content;
}

}  // namespace headcount
