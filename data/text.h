#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace headcount {

/// Returns true if a file or folder of that name exists. Throws DataError, naming it, if the system
/// does not tell: a path that cannot be looked at does not count as absent.
bool is_there(const std::filesystem::path& path);

/// The bytes of a file. Throws DataError, naming the file, if it is missing, a folder, unreadable,
/// empty, or ends before its size is read; bad_alloc if memory does not suffice.
std::string read_file(const std::filesystem::path& path);

/// The code points of UTF-8 `bytes`; a byte order mark, if any, stays. Throws DataError, naming
/// `source` and the byte offset, at the first NUL byte (a binary file) or invalid byte, whichever
/// comes first.
std::u32string decode_utf8(std::string_view bytes, const std::string& source);

/// Calls `take` with the code points of a UTF-8 file, piece by piece, so that little of the file is
/// in memory at a time. Returns the SHA-256 of its bytes, as sha256_hex. Throws as `read_file` and
/// `decode_utf8`.
std::string read_text(const std::filesystem::path& path,
                      const std::function<void(std::u32string_view)>& take);

/// The UTF-8 bytes of `text`. Throws DataError for a value that is no Unicode scalar value.
std::string encode_utf8(std::u32string_view text);

/// SHA-256 (FIPS 180-4) of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

/// SHA-256, as sha256_hex, of the bytes of a file, which is read piece by piece. Throws as
/// `read_file`, but accepts an empty file.
std::string sha256_of_file(const std::filesystem::path& path);

/// `text` quoted as one word of a POSIX shell's command line, whatever bytes it has.
std::string shell_word(std::string_view text);

}  // namespace headcount
