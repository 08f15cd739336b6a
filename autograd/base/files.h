#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "autograd/base/error.h"

namespace headcount {

/// Returns true if a file or folder of that name exists. Throws DataError, naming it, if the system
/// does not tell: a path that cannot be looked at does not count as absent.
bool is_there(const std::filesystem::path& path);

/// The bytes of a file. Throws DataError, naming the file, if it is missing, a folder, unreadable,
/// empty, or ends before its size is read; bad_alloc if memory does not suffice.
std::string read_file(const std::filesystem::path& path);

/// Calls `take` with the bytes of a file, piece by piece, to the end. Throws as `read_file`, but
/// accepts an empty file.
void read_pieces(const std::filesystem::path& path,
                 const std::function<void(std::string_view)>& take);

/// The error of a file that has no bytes where text is wanted.
DataError empty_file(const std::filesystem::path& path);

}  // namespace headcount
