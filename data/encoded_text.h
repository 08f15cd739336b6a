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
  /// Hash of the UTF-8 text, 64 hexadecimal digits; of two files, both, joined by "+".
  std::string sha256;
  std::size_t first = 0;  ///< characters of the first of two files; 0: there is one
  Index line_ends = 0;    ///< number of "\r\n" in the text
};

/// Encodes a text that comes piece by piece: memory holds little more than its tokens, four bytes
/// per character.
class TextEncoder {
 public:
  /// Reserves memory for a text of `characters`. With `unix_newlines`, "\r\n" becomes "\n".
  explicit TextEncoder(std::size_t characters, bool unix_newlines = false);
  void add(std::u32string_view piece);
  /// Ends a file: the next piece begins another. Returns the number of characters so far.
  std::size_t end_file();
  /// The whole text, whose UTF-8 bytes have the hash `sha256`.
  EncodedText finish(std::string sha256) &&;

 private:
  void append(char32_t symbol);

  // The order of all characters is known only at the end: until then they are numbered as they
  // come.
  std::u32string symbols_;
  std::vector<std::int32_t> numbers_;  // by code point
  std::vector<std::int32_t> tokens_;
  bool unix_newlines_;
  bool after_return_ = false;  // the last symbol was "\r", which is not appended yet
  Index line_ends_ = 0;
};

/// Encodes UTF-8 `bytes`. Throws DataError that names `source`, as decode_utf8 does.
EncodedText encode_text(std::string_view bytes, const std::string& source,
                        bool unix_newlines = false);

/// Replaces tokens of the vocabulary `from` by tokens of `to` for the same characters. Throws
/// DataError that names the characters of `from` which `to` lacks.
void recode(std::span<std::int32_t> tokens, const Vocabulary& from, const Vocabulary& to);

}  // namespace headcount
