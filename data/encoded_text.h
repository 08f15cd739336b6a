#pragma once

#include <cstdint>
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
  std::string sha256;   ///< hash of the UTF-8 text, 64 hexadecimal digits
  Index line_ends = 0;  ///< number of "\r\n" in the text
};

/// Encodes UTF-8 `bytes`; with `unix_newlines`, "\r\n" becomes "\n". Memory holds four bytes for
/// each byte of the text. Throws DataError that names `source`, as decode_utf8 does.
EncodedText encode_text(std::string_view bytes, const std::string& source,
                        bool unix_newlines = false);

/// Replaces tokens of the vocabulary `from` by tokens of `to` for the same characters. Throws
/// DataError that names the characters of `from` which `to` lacks.
void recode(std::span<std::int32_t> tokens, const Vocabulary& from, const Vocabulary& to);

}  // namespace headcount
