#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/real.h"

namespace headcount {

/// Numbers of what other systems write into a text where Unix writes "\n" or nothing.
struct ForeignNewlines {
  Index pairs = 0;    ///< "\r\n"
  Index returns = 0;  ///< "\r" before another character, a line end of old Macs
  Index marks = 0;    ///< byte order marks, U+FEFF: at the beginning, or where files were joined
};

/// A UTF-8 text as characters: Unicode code points.
struct Characters {
  std::vector<std::int32_t> points;
  std::string sha256;       ///< hash of the UTF-8 text, 64 hexadecimal digits
  ForeignNewlines foreign;  ///< of the text, whether or not `points` still have them
};

/// The characters of UTF-8 `bytes`; with `unix_newlines`, "\r\n" and "\r" become "\n", and byte
/// order marks are left out. Memory holds four bytes for each byte of the text. Throws DataError
/// that names `source`, as decode_utf8 does.
Characters read_characters(std::string_view bytes, const std::string& source,
                           bool unix_newlines = false);

/// Characters that a model knows. The token of a character is its index in `symbols()`.
class Vocabulary {
 public:
  /// An empty vocabulary.
  Vocabulary() = default;

  /// Vocabulary of the characters in texts, in ascending order.
  static Vocabulary of(std::initializer_list<std::span<const std::int32_t>> texts);

  /// Vocabulary of `symbols` in this order. Throws DataError for a symbol that comes twice or is no
  /// Unicode character.
  explicit Vocabulary(std::u32string symbols);

  Index size() const { return static_cast<Index>(symbols_.size()); }
  const std::u32string& symbols() const { return symbols_; }

  /// Replaces characters by their tokens. Throws DataError that names the unknown ones, each once.
  void encode(std::span<std::int32_t> characters) const;
  std::vector<std::int32_t> encode(std::u32string_view text) const;  ///< one token per character
  /// Default prompt for sampling, one token: a line break, or the first symbol if the vocabulary
  /// has no line break.
  std::vector<std::int32_t> default_prompt() const;

  /// UTF-8 text of `tokens`. Throws DataError for a token outside 0 .. size() - 1.
  std::string decode(std::span<const std::int32_t> tokens) const;

  bool operator==(const Vocabulary&) const = default;

 private:
  std::u32string symbols_;
};

}  // namespace headcount
