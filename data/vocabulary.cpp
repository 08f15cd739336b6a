#include "data/vocabulary.h"

#include <algorithm>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/utf8.h"

namespace headcount {

namespace {

constexpr std::int32_t kNone = -1;

// Makes `table` long enough for `symbol`. Throws DataError for a value that is no Unicode
// character, so that no table grows beyond Unicode's range.
template <class Table>
void reach(Table& table, char32_t symbol, typename Table::value_type filler) {
  if (symbol < table.size()) return;
  encode_utf8({&symbol, 1});
  table.resize(symbol + 1, filler);
}

std::u32string distinct(std::u32string_view text) {
  std::vector<char> seen;
  for (const char32_t symbol : text) {
    reach(seen, symbol, 0);
    seen[symbol] = 1;
  }
  std::u32string symbols;
  for (char32_t symbol = 0; symbol < seen.size(); ++symbol) {
    if (seen[symbol] != 0) symbols += symbol;
  }
  return symbols;
}

/// "'é' (U+00E9)"; control characters by number only, so that the message stays one line.
std::string name_of(char32_t symbol) {
  std::string number;
  for (auto rest = static_cast<std::uint32_t>(symbol); rest > 0 || number.size() < 4; rest /= 16)
    number.insert(number.begin(), "0123456789ABCDEF"[rest % 16]);
  const bool control =
      symbol < 0x20 || (symbol >= 0x7F && symbol < 0xA0) || symbol == 0x2028 || symbol == 0x2029;
  return control ? "U+" + number : "'" + encode_utf8({&symbol, 1}) + "' (U+" + number + ")";
}

}  // namespace

Vocabulary::Vocabulary(std::u32string symbols) : symbols_(std::move(symbols)) {
  std::int32_t next = 0;
  for (const char32_t symbol : symbols_) {
    reach(tokens_, symbol, kNone);
    if (tokens_[symbol] != kNone)
      throw DataError("the vocabulary has " + name_of(symbol) + " twice");
    tokens_[symbol] = next++;
  }
}

Vocabulary Vocabulary::from_text(std::u32string_view text) { return Vocabulary(distinct(text)); }

std::vector<std::int32_t> Vocabulary::encode(std::u32string_view text) const {
  const auto token_of = [&](char32_t symbol) {
    return symbol < tokens_.size() ? tokens_[symbol] : kNone;
  };
  std::vector<std::int32_t> tokens(text.size());
  std::ranges::transform(text, tokens.begin(), token_of);
  if (std::ranges::find(tokens, kNone) == tokens.end()) return tokens;

  std::u32string unknown = distinct(text);
  std::erase_if(unknown, [&](char32_t symbol) { return token_of(symbol) != kNone; });
  constexpr std::size_t most_named = 20;  // a text in another script would fill the screen
  std::string names;
  for (std::size_t i = 0; i < std::min(unknown.size(), most_named); ++i) {
    names += (i == 0 ? "" : ", ") + name_of(unknown[i]);
  }
  if (unknown.size() > most_named) {
    names += " and " + std::to_string(unknown.size() - most_named) + " more";
  }
  throw DataError("the model's vocabulary of " + std::to_string(size()) + " characters lacks " +
                  names + "; remove them from the text");
}

std::vector<std::int32_t> Vocabulary::default_prompt() const {
  const bool has_line_break = symbols_.find(U'\n') != std::u32string::npos;
  return encode(has_line_break ? std::u32string(U"\n") : symbols_.substr(0, 1));
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::u32string text;
  text.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= size()) {
      throw DataError("token " + std::to_string(token) + " is outside the vocabulary of " +
                      std::to_string(size()) + " characters; use the vocabulary it came from");
    }
    text += symbols_[static_cast<std::size_t>(token)];
  }
  return encode_utf8(text);
}

}  // namespace headcount
