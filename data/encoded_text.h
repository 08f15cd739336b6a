#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/vocabulary.h"

namespace headcount {

/// Text as tokens, with the vocabulary of its characters.
struct EncodedText {
  std::vector<std::int32_t> tokens;  ///< [characters]
  Vocabulary vocabulary;
  std::string sha256;  ///< hash of the UTF-8 text, 64 hexadecimal digits
};

/// Encodes UTF-8 `bytes`. Throws DataError that names `source`, as decode_utf8 does.
EncodedText encode_text(std::string_view bytes, const std::string& source);

/// Encodes a UTF-8 file piece by piece: memory holds little more than its tokens, four bytes per
/// character. Throws DataError as read_text does.
EncodedText encode_file(const std::filesystem::path& path);

/// Replaces tokens of the vocabulary `from` by tokens of `to` for the same characters. Throws
/// DataError that names the characters of `from` which `to` lacks.
void recode(std::span<std::int32_t> tokens, const Vocabulary& from, const Vocabulary& to);

}  // namespace headcount
