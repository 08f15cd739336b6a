#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace headcount {

/// The code points of UTF-8 `bytes`, with any byte order mark. Throws DataError that names `source`
/// and the byte offset at the first NUL byte (a binary file) or invalid byte.
std::u32string decode_utf8(std::string_view bytes, const std::string& source);

/// Calls `take` with the code points of a UTF-8 file, piece by piece: little of it is in memory at
/// a time. Returns the SHA-256 of its bytes, as sha256_hex does. Throws DataError as `read_file`
/// and `decode_utf8` do.
std::string read_text(const std::filesystem::path& path,
                      const std::function<void(std::u32string_view)>& take);

/// The UTF-8 bytes of `text`. Throws DataError for a code point that Unicode does not have.
std::string encode_utf8(std::u32string_view text);

}  // namespace headcount
