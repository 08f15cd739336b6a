#include "data/vocabulary.h"

#include <utf8.h>

#include <algorithm>
#include <set>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

/// Name of a character in messages: "'é' (U+00E9)"; of one that is not printable, its number alone.
std::string name_of(char32_t symbol) {
  const std::string number = formatted("U+%04X", static_cast<unsigned>(symbol));
  const std::string character = encode_utf8({&symbol, 1}), shown = headcount::quoted(character);
  return shown == "'" + character + "'" ? shown + " (" + number + ")" : number;
}

}  // namespace

Vocabulary::Vocabulary(std::u32string symbols) : symbols_(std::move(symbols)) {
  encode_utf8(symbols_);  // throws for what is no Unicode character
  std::u32string sorted = symbols_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) throw DataError("the vocabulary has {} twice", name_of(*twice));
}

Vocabulary Vocabulary::of(std::initializer_list<std::span<const std::int32_t>> texts) {
  std::vector<bool> occurs;
  for (const std::span<const std::int32_t> text : texts) {
    for (const std::int32_t point : text) {
      if (point >= std::ssize(occurs)) occurs.resize(point + 1);
      occurs[point] = true;
    }
  }
  std::u32string symbols;
  for (char32_t point = 0; point < occurs.size(); ++point) {
    if (occurs[point]) symbols += point;
  }
  return Vocabulary(std::move(symbols));
}

void Vocabulary::encode(std::span<std::int32_t> characters) const {
  constexpr std::int32_t kUnknown = -1;
  std::vector<std::int32_t> token_of(symbols_.empty() ? 0 : std::ranges::max(symbols_) + 1,
                                     kUnknown);
  for (Index token = 0; token < size(); ++token) token_of[symbols_[token]] = token;
  std::set<char32_t> unknown;
  for (std::int32_t& character : characters) {
    const bool beyond = character >= std::ssize(token_of);
    const std::int32_t token = beyond ? kUnknown : token_of[character];
    if (token == kUnknown) unknown.insert(character);
    character = token;
  }
  if (unknown.empty()) return;
  constexpr std::size_t kMostNamed = 20;  // a text in another script would fill the screen
  const std::u32string all(unknown.begin(), unknown.end());
  std::string names = joined(all.substr(0, kMostNamed), name_of);
  if (all.size() > kMostNamed) names += " and " + std::to_string(all.size() - kMostNamed) + " more";
  throw DataError("the model's vocabulary of {} characters lacks {}; give a text without them",
                  size(), names);
}

std::vector<std::int32_t> Vocabulary::encode(std::u32string_view text) const {
  std::vector<std::int32_t> tokens(text.begin(), text.end());
  encode(tokens);
  return tokens;
}

std::vector<std::int32_t> Vocabulary::default_prompt() const {
  const bool has_line_break = symbols_.find(U'\n') != std::u32string::npos;
  return encode(has_line_break ? std::u32string(U"\n") : symbols_.substr(0, 1));
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::u32string text;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= size()) {
      throw DataError(
          "token {} is outside the vocabulary of {} characters; use the vocabulary it came from",
          token, size());
    }
    text += symbols_[token];
  }
  return encode_utf8(text);
}

Characters read_characters(std::string_view bytes, const std::string& source, bool unix_newlines) {
  require_utf8(bytes, source);
  Characters text;
  text.sha256 = sha256_hex(bytes);
  text.points.reserve(bytes.size());
  auto at = bytes.begin();
  while (at != bytes.end()) {
    const auto point = static_cast<std::int32_t>(utf8::unchecked::next(at));
    const bool pair = point == '\r' && at != bytes.end() && *at == '\n';
    const bool mark = point == 0xFEFF;
    text.foreign.marks += mark;
    text.foreign.pairs += pair;
    text.foreign.returns += point == '\r' && !pair;
    if (!unix_newlines || (point != '\r' && !mark)) {
      text.points.push_back(point);
    } else if (!pair && !mark) {
      text.points.push_back('\n');
    }
  }
  return text;
}

}  // namespace headcount
