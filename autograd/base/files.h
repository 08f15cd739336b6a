#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/error.h"

namespace headcount {

/// Returns true if a file or folder of that name exists. Throws DataError that names the path if
/// the system cannot tell, for example for lack of permission.
bool is_there(const std::filesystem::path& path);

/// Paths of everything in a folder, sorted. Throws DataError: a folder that cannot be read must not
/// look empty.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// The bytes of a file. Throws DataError that names the file if it is missing, a folder,
/// unreadable, empty, or shorter than its size; bad_alloc if memory does not suffice.
std::string read_file(const std::filesystem::path& path);

/// Calls `take` with the bytes of a file, piece by piece, to the end. Throws DataError as
/// `read_file` does, but accepts an empty file.
void read_pieces(const std::filesystem::path& path,
                 const std::function<void(std::string_view)>& take);

/// SHA-256 of the bytes of a file, as 64 lower-case hexadecimal digits. Throws DataError as
/// `read_pieces` does.
std::string sha256_of_file(const std::filesystem::path& path);

/// Error which says that the file at `path` is empty.
DataError empty_file(const std::filesystem::path& path);

}  // namespace headcount
