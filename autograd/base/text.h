#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

/// Helpers for texts: quoting, joining, splitting, formats, numbers, the nearest word, UTF-8.
namespace headcount {

/// `text`, printable and in one line, for a message; of a long one, its beginning and how many
/// bytes follow.
std::string shortened(std::string_view text);

/// `text`, which a file or a user wrote, between quotation marks for a message, as `shortened`.
std::string quoted(std::string_view text);

/// `text`, any bytes, quoted as one word of a POSIX shell's command line.
std::string shell_word(std::string_view text);

/// The names of `items` with commas between them.
template <class Items, class Name = std::identity>
std::string joined(const Items& items, Name name = {}) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += std::invoke(name, item);
  }
  return text;
}

/// The text that std::printf prints. The compiler checks the values against the format.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

/// Substrings of `text` between separators: at least one; they may be empty.
std::vector<std::string_view> split_text(std::string_view text, char separator);

/// The shortest decimal text that reads back as the same number.
std::string shortest_text(double number);

/// Reads a number that takes up all of `text`. Returns invalid_argument if there is none,
/// result_out_of_range if it is too large, or so small that `number` is 0. Some standard libraries
/// lack std::from_chars for double.
std::errc parse_number(std::string_view text, double& number);
/// Reads a whole number that takes up all of `text`; the type of `number` bounds it.
template <std::integral Number>
std::errc parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end != text.data() + text.size() ? std::errc::invalid_argument
                                                                  : error;
}

/// The word of `known` with the least edit distance from `word`, counting letters inserted,
/// removed, replaced or swapped with their neighbour. Empty if none differs in at most one letter
/// of three.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// End of an error about `word`: "; did you mean --attention?". Empty if no known word is near.
std::string suggestion(std::string_view word, std::span<const std::string> known,
                       const std::string& prefix = "");

/// Throws DataError that names `source` and the byte offset at the first NUL byte (a binary file)
/// or byte that is not UTF-8.
void require_utf8(std::string_view bytes, const std::string& source);

/// The code points of UTF-8 `bytes`, with any byte order mark. Throws DataError as require_utf8.
std::u32string decode_utf8(std::string_view bytes, const std::string& source);

/// The UTF-8 bytes of `text`. Throws DataError for a code point that Unicode does not have.
std::string encode_utf8(std::u32string_view text);

/// Returns true for ASCII letters and, beyond ASCII, for all characters except blanks, signs and
/// punctuation, by blocks of Unicode.
bool is_letter(char32_t c);

/// Returns true for characters that belong to the one before them, as in a family of emoji: the
/// joiner, variation selectors and combining diacritical marks.
bool is_continuing(char32_t c);

/// `c` as one column of any terminal, a line break as ↵; empty for a character that may take
/// another number of columns, combine with others or change the direction of writing.
std::string in_one_column(char32_t c);

/// Number of code points of UTF-8 `text`, about the columns that it takes; invalid bytes count as
/// the characters that are shown for them.
std::size_t character_count(std::string_view text);

}  // namespace headcount
