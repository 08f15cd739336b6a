#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headcount {

/// Throws DataError that names `source` and the byte offset at the first NUL byte (a binary file)
/// or byte that is not UTF-8.
void require_utf8(std::string_view bytes, const std::string& source);

/// The code points of UTF-8 `bytes`, with any byte order mark. Throws DataError as require_utf8.
std::u32string decode_utf8(std::string_view bytes, const std::string& source);

/// The UTF-8 bytes of `text`. Throws DataError for a code point that Unicode does not have.
std::string encode_utf8(std::u32string_view text);

/// Number of code points of UTF-8 `text`, about the columns that it takes; invalid bytes count as
/// the characters that are shown for them.
std::size_t character_count(std::string_view text);

}  // namespace headcount
