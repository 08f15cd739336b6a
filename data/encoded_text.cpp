#include "data/encoded_text.h"

#include "autograd/base/sha256.h"
#include "autograd/base/utf8.h"

namespace headcount {

TextEncoder::TextEncoder(std::size_t characters, bool unix_newlines)
    : unix_newlines_(unix_newlines) {
  tokens_.reserve(characters);
}

void TextEncoder::append(char32_t symbol) {
  constexpr std::int32_t kNone = -1;
  if (symbol >= numbers_.size()) numbers_.resize(symbol + 1, kNone);
  if (numbers_[symbol] == kNone) {
    numbers_[symbol] = static_cast<std::int32_t>(symbols_.size());
    symbols_ += symbol;
  }
  tokens_.push_back(numbers_[symbol]);
}

void TextEncoder::add(std::u32string_view piece) {
  for (const char32_t symbol : piece) {
    const bool line_end = after_return_ && symbol == U'\n';
    line_ends_ += line_end;
    if (after_return_ && !(line_end && unix_newlines_)) append(U'\r');
    after_return_ = symbol == U'\r';
    if (!after_return_) append(symbol);
  }
}

std::size_t TextEncoder::end_file() {
  if (after_return_) append(U'\r');
  after_return_ = false;
  return tokens_.size();
}

EncodedText TextEncoder::finish(std::string sha256) && {
  end_file();
  EncodedText text{.tokens = std::move(tokens_),
                   .vocabulary = Vocabulary::from_text(symbols_),
                   .sha256 = std::move(sha256),
                   .line_ends = line_ends_};
  recode(text.tokens, Vocabulary(symbols_), text.vocabulary);
  return text;
}

EncodedText encode_text(std::string_view bytes, const std::string& source, bool unix_newlines) {
  TextEncoder encoder(bytes.size(), unix_newlines);
  encoder.add(decode_utf8(bytes, source));
  return std::move(encoder).finish(sha256_hex(bytes));
}

void recode(std::span<std::int32_t> tokens, const Vocabulary& from, const Vocabulary& to) {
  if (from == to) return;
  const std::vector<std::int32_t> token_of = to.encode(from.symbols());
  for (std::int32_t& token : tokens) token = token_of[static_cast<std::size_t>(token)];
}

}  // namespace headcount
