#include "data/encoded_text.h"

#include <system_error>

#include "autograd/base/sha256.h"
#include "autograd/base/utf8.h"

namespace headcount {

namespace {

// Encodes the pieces that `read` hands on; `read` returns the SHA-256 of their bytes.
template <class Read>
EncodedText encode(std::size_t characters, const Read& read) {
  constexpr std::int32_t kNone = -1;
  EncodedText text;
  text.tokens.reserve(characters);
  // The order of all characters is known only at the end: until then they are numbered as they
  // come.
  std::u32string symbols;
  std::vector<std::int32_t> numbers;  // by code point
  text.sha256 = read([&](std::u32string_view piece) {
    for (const char32_t symbol : piece) {
      if (symbol >= numbers.size()) numbers.resize(symbol + 1, kNone);
      if (numbers[symbol] == kNone) {
        numbers[symbol] = static_cast<std::int32_t>(symbols.size());
        symbols += symbol;
      }
      text.tokens.push_back(numbers[symbol]);
    }
  });
  text.vocabulary = Vocabulary::from_text(symbols);
  recode(text.tokens, Vocabulary(symbols), text.vocabulary);
  return text;
}

}  // namespace

EncodedText encode_text(std::string_view bytes, const std::string& source) {
  return encode(bytes.size(), [&](const auto& take) {
    take(decode_utf8(bytes, source));
    return sha256_hex(bytes);
  });
}

EncodedText encode_file(const std::filesystem::path& path) {
  std::error_code none;  // a pipe has no size
  const std::uintmax_t size = std::filesystem::file_size(path, none);
  return encode(none ? 0 : size, [&](const auto& take) { return read_text(path, take); });
}

void recode(std::span<std::int32_t> tokens, const Vocabulary& from, const Vocabulary& to) {
  if (from == to) return;
  const std::vector<std::int32_t> token_of = to.encode(from.symbols());
  for (std::int32_t& token : tokens) token = token_of[static_cast<std::size_t>(token)];
}

}  // namespace headcount
