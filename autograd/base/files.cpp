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
    throw DataError("'", path.string(), "' cannot be read: ", error.message(),
                    "; check its permissions");
  }
  return std::filesystem::exists(status);
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    paths.push_back(entry->path());
  if (error) throw DataError(folder.string(), " cannot be read: ", error.message());
  std::ranges::sort(paths);
  return paths;
}

std::string read_bytes(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  const std::string name = "'" + path.string() + "'";
  const auto fail = [&](const std::string& why) {
    throw DataError(name, " cannot be read: ", why, "; check its permissions");
  };
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    throw DataError("there is no file ", name, "; check the path");
  if (fs::is_directory(status)) throw DataError(name, " is a folder; name a file in it");
  // Pipes have no size to compare with.
  const std::uintmax_t size = fs::is_regular_file(status) ? fs::file_size(path, error) : 0;
  if (error) fail(error.message());
  std::ifstream file(path, std::ios::binary);
  std::string content;
  content.reserve(size);
  for (std::array<char, std::size_t{1} << 13> piece; file;) {
    file.read(piece.data(), std::ssize(piece));
    content.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) fail(std::generic_category().message(errno));
  if (content.size() < size) {  // it was read only in part
    throw DataError(name, " ended after ", content.size(), " of ", size,
                    " bytes; let nothing else write it");
  }
  return content;
}

std::string read_file(const std::filesystem::path& path) {
  std::string content = read_bytes(path);
  if (content.empty())
    throw DataError("'", path.string(), "' is empty; name a file with text in it");
  return content;
}

}  // namespace headcount
