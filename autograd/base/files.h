#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "autograd/base/error.h"

namespace headcount {

/// Returns true if a file or folder of that name exists. Throws DataError that names the path if
/// the system cannot tell, for example for lack of permission.
bool is_there(const std::filesystem::path& path);

/// The bytes of a file. Throws DataError that names the file if it is missing, a folder,
/// unreadable, empty, or shorter than its size; bad_alloc if memory does not suffice.
std::string read_file(const std::filesystem::path& path);

/// Calls `take` with the bytes of a file, piece by piece, to the end. Throws DataError as
/// `read_file` does, but accepts an empty file.
void read_pieces(const std::filesystem::path& path,
                 const std::function<void(std::string_view)>& take);

/// Error which says that the file at `path` is empty.
DataError empty_file(const std::filesystem::path& path);

}  // namespace headcount
