#include "data/vocabulary.h"

#include <utf8.h>

#include <algorithm>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/sha256.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

/// Name of a character in messages: "'é' (U+00E9)". Control characters have their number only, so
/// that the message stays one line.
std::string name_of(char32_t symbol) {
  const std::string number = formatted("U+%04X", static_cast<unsigned>(symbol));
  const bool control =
      symbol < 0x20 || (symbol >= 0x7F && symbol < 0xA0) || symbol == 0x2028 || symbol == 0x2029;
  return control ? number : "'" + encode_utf8({&symbol, 1}) + "' (" + number + ")";
}

}  // namespace

Vocabulary::Vocabulary(std::u32string symbols) : symbols_(std::move(symbols)) {
  encode_utf8(symbols_);  // throws for what is no Unicode character
  std::u32string sorted = symbols_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  if (twice != sorted.end()) throw DataError("the vocabulary has ", name_of(*twice), " twice");
}

std::vector<std::int32_t> Vocabulary::encode(std::u32string_view text) const {
  std::vector<std::int32_t> tokens;
  std::u32string unknown;
  for (const char32_t symbol : text) {
    const std::size_t token = symbols_.find(symbol);
    if (token == std::u32string::npos) unknown += symbol;
    tokens.push_back(static_cast<std::int32_t>(token));
  }
  if (unknown.empty()) return tokens;
  std::ranges::sort(unknown);
  unknown.erase(std::unique(unknown.begin(), unknown.end()), unknown.end());
  constexpr std::size_t most_named = 20;  // a text in another script would fill the screen
  std::string names = joined(unknown.substr(0, most_named), name_of);
  if (unknown.size() > most_named)
    names += " and " + std::to_string(unknown.size() - most_named) + " more";
  throw DataError("the model's vocabulary of ", size(), " characters lacks ", names,
                  "; give a text without them");
}

std::vector<std::int32_t> Vocabulary::default_prompt() const {
  const bool has_line_break = symbols_.find(U'\n') != std::u32string::npos;
  return encode(has_line_break ? std::u32string(U"\n") : symbols_.substr(0, 1));
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  std::u32string text;
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= size()) {
      throw DataError("token ", token, " is outside the vocabulary of ", size(),
                      " characters; use the vocabulary it came from");
    }
    text += symbols_[token];
  }
  return encode_utf8(text);
}

EncodedText encode_text(std::string_view bytes, const std::string& source, bool unix_newlines) {
  require_utf8(bytes, source);
  EncodedText text;
  text.sha256 = sha256_hex(bytes);
  // Tokens are code points until all characters are known.
  std::vector<std::int32_t>& tokens = text.tokens;
  tokens.reserve(bytes.size());
  std::int32_t greatest = 0;
  for (auto at = bytes.begin(); at != bytes.end();) {
    const auto symbol = static_cast<std::int32_t>(utf8::unchecked::next(at));
    const bool line_end = symbol == '\n' && !tokens.empty() && tokens.back() == '\r';
    if (line_end && unix_newlines) tokens.pop_back();
    tokens.push_back(symbol);
    text.line_ends += line_end;
    greatest = std::max(greatest, symbol);
  }
  std::vector<std::int32_t> token_of(greatest + 1);
  for (const std::int32_t symbol : tokens) token_of[symbol] = 1;
  std::u32string symbols;
  for (std::int32_t symbol = 0; symbol <= greatest; ++symbol) {
    if (token_of[symbol] == 0) continue;
    token_of[symbol] = static_cast<std::int32_t>(symbols.size());
    symbols += static_cast<char32_t>(symbol);
  }
  for (std::int32_t& token : tokens) token = token_of[token];
  text.vocabulary = Vocabulary(std::move(symbols));
  return text;
}

void recode(std::span<std::int32_t> tokens, const Vocabulary& from, const Vocabulary& to) {
  if (from == to) return;
  const std::vector<std::int32_t> token_of = to.encode(from.symbols());
  for (std::int32_t& token : tokens) token = token_of[token];
}

}  // namespace headcount
