#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "autograd/base/error.h"

namespace headcount {

/// Returns true if a file or folder of that name exists. Throws DataError that names the path if
/// the system cannot tell, for example for lack of permission.
bool is_there(const std::filesystem::path& path);

/// Paths of everything in a folder, sorted. Throws DataError: a folder that cannot be read must not
/// look empty.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

/// The bytes of a file or pipe, which may be empty. Throws DataError that names the file if it is
/// missing, a folder or unreadable; bad_alloc if memory does not suffice.
std::string read_bytes(const std::filesystem::path& path);

/// The bytes of a file. Throws DataError as `read_bytes` does, and for an empty file.
std::string read_file(const std::filesystem::path& path);

}  // namespace headcount
