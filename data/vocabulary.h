#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/real.h"

namespace headcount {

/// The characters (Unicode code points) that a model knows. A character's token is its position,
/// 0 .. size() - 1; of a text's characters that is their ascending order, as in nanoGPT's
/// character-level data sets.
class Vocabulary {
 public:
  /// No symbols: knows no text.
  Vocabulary() = default;

  /// In this order. Throws DataError for one that comes twice or is no Unicode character.
  explicit Vocabulary(std::u32string symbols);

  /// The distinct characters of `text`.
  static Vocabulary from_text(std::u32string_view text);

  Index size() const { return static_cast<Index>(symbols_.size()); }
  const std::u32string& symbols() const { return symbols_; }

  /// One token per character. Throws DataError that names the unknown characters, each once.
  std::vector<std::int32_t> encode(std::u32string_view text) const;
  /// What a model continues when nobody gives it a text: a line break, or the first symbol where
  /// there is none.
  std::vector<std::int32_t> default_prompt() const;

  /// UTF-8 text of `tokens`. Throws DataError for a token outside 0 .. size() - 1.
  std::string decode(std::span<const std::int32_t> tokens) const;

  bool operator==(const Vocabulary&) const = default;

 private:
  std::u32string symbols_;
  std::vector<std::int32_t> tokens_;  // by code point, up to the greatest symbol; -1: none
};

}  // namespace headcount
