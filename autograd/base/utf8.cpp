#include "autograd/base/utf8.h"

#include <utf8.h>

#include "autograd/base/error.h"

namespace headcount {

void require_utf8(std::string_view bytes, const std::string& source) {
  const auto invalid =
      static_cast<std::size_t>(utf8::find_invalid(bytes.begin(), bytes.end()) - bytes.begin());
  const std::size_t nul = bytes.substr(0, invalid).find('\0');
  if (nul != std::string_view::npos) {
    throw DataError("'", source, "' looks like a binary file: NUL byte at offset ", nul,
                    "; name a text file");
  }
  if (invalid < bytes.size()) {
    throw DataError("'", source, "' is not UTF-8: invalid byte at offset ", invalid,
                    "; convert it, e.g. with iconv");
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
    throw DataError(error.code_point(),
                    " is not a Unicode character; use code points up to 0x10FFFF, no surrogates");
  }
}

std::size_t character_count(std::string_view text) {
  const std::string valid = utf8::replace_invalid(text);
  return static_cast<std::size_t>(utf8::distance(valid.begin(), valid.end()));
}

}  // namespace headcount
