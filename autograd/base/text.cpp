#include "autograd/base/text.h"

#include <utf8.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <locale>
#include <optional>
#include <sstream>

#include "autograd/base/error.h"

namespace headcount {

namespace {

// Returns true for control characters, and those that break lines or turn the direction of writing.
bool is_unprintable(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

// `kept` is not replaced.
std::string escaped(std::string_view text, std::optional<char32_t> kept = {}) {
  std::string result;
  const auto escape = [&](const char* from, const char* to) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    for (; from != to; ++from) {
      const auto code = static_cast<unsigned char>(*from);
      result += {'\\', 'x', kDigits[code / 16], kDigits[code % 16]};
    }
  };
  const char* const end = text.data() + text.size();
  for (const char* at = text.data();;) {
    for (const char* const invalid = utf8::find_invalid(at, end); at != invalid;) {
      const char* const character = at;
      const char32_t code = utf8::next(at, invalid);
      if (is_unprintable(code) && code != kept) {
        escape(character, at);
      } else {
        result.append(character, at);
      }
    }
    if (at == end) break;
    escape(at, at + 1);
    ++at;
  }
  return result;
}

// The beginning of `text` in one line, between marks, and how many bytes follow it.
std::string beginning(std::string_view text, const char* mark) {
  constexpr std::size_t kMost = 200;  // bytes
  const auto continues = [&](std::size_t at) { return (text[at] & 0xc0) == 0x80; };
  std::size_t end = std::min(kMost, text.size());
  while (end < text.size() && end > kMost - 3 && continues(end)) --end;  // no half character
  const std::string shown = mark + escaped(text.substr(0, end)) + mark;
  return end == text.size() ? shown
                            : shown + " and " + std::to_string(text.size() - end) + " more bytes";
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, U'\n'); }

std::string shortened(std::string_view text) { return beginning(text, ""); }

std::string quoted(std::string_view text) { return beginning(text, "'"); }

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+,.:/@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(text);
  // Between single quotes only the quote itself is special. Control characters and bytes that are
  // not UTF-8 would be lost in a terminal or a page, so printf writes them.
  const bool is_text = utf8::is_valid(text);
  std::string word = "'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\'') {
      word += "'\\''";
    } else if ((code < 0x20 && c != '\n') || code == 0x7f || (code >= 0x80 && !is_text)) {
      const char octal[] = {static_cast<char>('0' + code / 64),
                            static_cast<char>('0' + code / 8 % 8),
                            static_cast<char>('0' + code % 8)};
      word += "'\"$(printf '\\" + std::string(octal, 3) + "')\"'";
    } else {
      word += c;
    }
  }
  return word + "'";
}

std::string formatted(const char* format, ...) {
  std::va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  const int length = std::vsnprintf(nullptr, 0, format, values);
  va_end(values);
  std::string text(length > 0 ? static_cast<std::size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string shortest_text(double number) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

std::errc parse_number(std::string_view text, double& number) {
  if (text == "inf" || text == "-inf") {
    number = std::numeric_limits<double>::infinity();
    return std::errc::result_out_of_range;
  }
  if (text.starts_with('+') || text.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
    return std::errc::invalid_argument;
  if (text.find_last_of("eE+-") == text.size() - 1) return std::errc::invalid_argument;
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  stream >> number;
  if (!stream.eof()) return std::errc::invalid_argument;
  const std::string_view digits = text.substr(0, text.find_first_of("eE"));
  if (number == 0 && digits.find_first_of("123456789") != digits.npos)
    return std::errc::result_out_of_range;
  if (!stream.fail()) return {};
  // A stream that fails returns 0 if there is no number, and the largest number on overflow.
  return number == 0 ? std::errc::invalid_argument : std::errc::result_out_of_range;
}

namespace {

// Damerau's and Levenshtein's distance, where no letter is edited twice (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the table of distances: entry j of row i is the distance between the
  // first i letters of `a` and the first j letters of `b`.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        row[j] = i + j;
        continue;
      }
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last.back();
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> known) {
  std::size_t least = (word.size() + 2) / 3 + 1;
  std::string found;
  for (const std::string& one : known) {
    const std::size_t distance = edit_distance(word, one);
    if (distance >= std::min(least, one.size())) continue;
    least = distance;
    found = one;
  }
  return found;
}

std::string suggestion(std::string_view word, std::span<const std::string> known,
                       const std::string& prefix) {
  const std::string found = nearest(word, known);
  return found.empty() ? "" : "; did you mean " + prefix + found + "?";
}

void require_utf8(std::string_view bytes, const std::string& source) {
  const auto invalid =
      static_cast<std::size_t>(utf8::find_invalid(bytes.begin(), bytes.end()) - bytes.begin());
  const std::size_t nul = bytes.substr(0, invalid).find('\0');
  if (nul != std::string_view::npos) {
    throw DataError("'{}' looks like a binary file: NUL byte at offset {}; name a text file",
                    source, nul);
  }
  if (invalid < bytes.size()) {
    throw DataError("'{}' is not UTF-8: invalid byte at offset {}; convert it, e.g. with iconv",
                    source, invalid);
  }
}

std::u32string decode_utf8(std::string_view bytes, const std::string& source) {
  require_utf8(bytes, source);
  return utf8::utf8to32(bytes);
}

std::string encode_utf8(std::u32string_view text) {
  try {
    return utf8::utf32to8(text);
  } catch (const utf8::invalid_code_point& error) {
    throw DataError("{} is not a Unicode character; use code points up to 0x10FFFF, no surrogates",
                    error.code_point());
  }
}

namespace {

struct Range {
  char32_t first, last;
};

bool is_in(std::span<const Range> ranges, char32_t c) {
  return std::ranges::any_of(ranges, [&](const Range& r) { return r.first <= c && c <= r.last; });
}

}  // namespace

bool is_letter(char32_t c) {
  if (c < 0x80) return std::isalpha(static_cast<int>(c)) != 0;
  constexpr Range kOthers[] = {
      {0x80, 0xa9},     {0xab, 0xb4},     {0xb6, 0xb9},     {0xbb, 0xbf},      // Latin-1
      {0xd7, 0xd7},     {0xf7, 0xf7},     {0x1680, 0x1680},                    // times, divided by
      {0x2000, 0x206f}, {0x3000, 0x3004}, {0x3008, 0x3020},                    // general, CJK
      {0xff01, 0xff20}, {0xff3b, 0xff40}, {0xff5b, 0xff65}, {0xfe10, 0xfe6f},  // forms
      {0xfeff, 0xfeff}};
  return !is_in(kOthers, c);
}

bool is_continuing(char32_t c) {
  constexpr Range kRanges[] = {{0x300, 0x36f}, {0x200d, 0x200d}, {0xfe00, 0xfe0f}};
  return is_in(kRanges, c);
}

std::string in_one_column(char32_t c) {
  // Scripts written from left to right without marks that combine, and signs.
  constexpr Range kRanges[] = {{0x20, 0x7e},       // ASCII
                               {0xa0, 0xac},       // Latin, up to the soft hyphen
                               {0xae, 0x2ff},      // Latin, phonetic letters
                               {0x370, 0x482},     // Greek, Cyrillic
                               {0x48a, 0x58f},     // Cyrillic, Armenian
                               {0x10a0, 0x10ff},   // Georgian
                               {0x1e00, 0x1fff},   // Latin, Greek
                               {0x2010, 0x2027},   // punctuation
                               {0x2030, 0x205e},   // punctuation
                               {0x2070, 0x20cf},   // superscripts, currencies
                               {0x2100, 0x2319},   // letterlike signs, arrows, mathematics
                               {0x2500, 0x25fc},   // boxes, blocks, shapes
                               {0x2800, 0x28ff}};  // Braille
  if (c == U'\n') return "↵";
  return is_in(kRanges, c) ? encode_utf8({&c, 1}) : "";
}

std::size_t character_count(std::string_view text) {
  const std::string valid = utf8::replace_invalid(text);
  return static_cast<std::size_t>(utf8::distance(valid.begin(), valid.end()));
}

}  // namespace headcount
