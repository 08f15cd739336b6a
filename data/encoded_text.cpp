#include "data/encoded_text.h"

#include <system_error>
#include <utility>

#include "autograd/base/sha256.h"
#include "autograd/base/utf8.h"

namespace headcount {

namespace {

// Encodes a text that arrives piece by piece. Characters are first numbered as they appear, since
// their final order is known only at the end.
class Encoder {
 public:
  explicit Encoder(std::size_t characters) { text_.tokens.reserve(characters); }

  void add(std::u32string_view piece) {
    for (const char32_t symbol : piece) {
      if (symbol >= numbers_.size()) numbers_.resize(symbol + 1, kNone);
      if (numbers_[symbol] == kNone) {
        numbers_[symbol] = static_cast<std::int32_t>(symbols_.size());
        symbols_ += symbol;
      }
      text_.tokens.push_back(numbers_[symbol]);
    }
  }

  EncodedText finish(std::string sha256) {
    text_.sha256 = std::move(sha256);
    text_.vocabulary = Vocabulary::from_text(symbols_);
    recode(text_.tokens, Vocabulary(symbols_), text_.vocabulary);
    return std::move(text_);
  }

 private:
  static constexpr std::int32_t kNone = -1;
  EncodedText text_;
  std::u32string symbols_;             // as they appeared
  std::vector<std::int32_t> numbers_;  // by code point
};

}  // namespace

EncodedText encode_text(std::string_view bytes, const std::string& source) {
  Encoder encoder(bytes.size());
  encoder.add(decode_utf8(bytes, source));
  return encoder.finish(sha256_hex(bytes));
}

EncodedText encode_file(const std::filesystem::path& path) {
  std::error_code none;  // a pipe has no size
  const std::uintmax_t size = std::filesystem::file_size(path, none);
  Encoder encoder(none ? 0 : size);
  std::string sha256 = read_text(path, [&](std::u32string_view piece) { encoder.add(piece); });
  return encoder.finish(std::move(sha256));
}

void recode(std::span<std::int32_t> tokens, const Vocabulary& from, const Vocabulary& to) {
  if (from == to) return;
  const std::vector<std::int32_t> token_of = to.encode(from.symbols());
  for (std::int32_t& token : tokens) token = token_of[static_cast<std::size_t>(token)];
}

}  // namespace headcount
