#include "data/encoded_text.h"

#include <utf8.h>

#include <algorithm>

#include "autograd/base/sha256.h"
#include "autograd/base/utf8.h"

namespace headcount {

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
