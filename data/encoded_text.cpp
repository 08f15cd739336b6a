#include "data/encoded_text.h"

#include "autograd/base/sha256.h"
#include "autograd/base/utf8.h"

namespace headcount {

TextEncoder::TextEncoder(std::size_t characters) { tokens_.reserve(characters); }

void TextEncoder::add(std::u32string_view piece) {
  constexpr std::int32_t kNone = -1;
  for (const char32_t symbol : piece) {
    if (symbol >= numbers_.size()) numbers_.resize(symbol + 1, kNone);
    if (numbers_[symbol] == kNone) {
      numbers_[symbol] = static_cast<std::int32_t>(symbols_.size());
      symbols_ += symbol;
    }
    tokens_.push_back(numbers_[symbol]);
  }
}

EncodedText TextEncoder::finish(std::string sha256) && {
  EncodedText text{std::move(tokens_), Vocabulary::from_text(symbols_), std::move(sha256)};
  recode(text.tokens, Vocabulary(symbols_), text.vocabulary);
  return text;
}

EncodedText encode_text(std::string_view bytes, const std::string& source) {
  TextEncoder encoder(bytes.size());
  encoder.add(decode_utf8(bytes, source));
  return std::move(encoder).finish(sha256_hex(bytes));
}

void recode(std::span<std::int32_t> tokens, const Vocabulary& from, const Vocabulary& to) {
  if (from == to) return;
  const std::vector<std::int32_t> token_of = to.encode(from.symbols());
  for (std::int32_t& token : tokens) token = token_of[static_cast<std::size_t>(token)];
}

}  // namespace headcount
