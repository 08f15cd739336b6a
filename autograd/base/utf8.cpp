#include "autograd/base/utf8.h"

#include <utf8.h>

#include <algorithm>
#include <iterator>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/sha256.h"

namespace headcount {

namespace {

// Decodes `bytes`, which begin at `offset` of `source`.
std::u32string decode(std::string_view bytes, const std::string& source, std::size_t offset) {
  // Most texts begin with ASCII, which is faster to copy than to decode.
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  const auto rest = std::ranges::find_if_not(bytes, is_ascii);
  const auto invalid =
      static_cast<std::size_t>(utf8::find_invalid(rest, bytes.end()) - bytes.begin());
  const std::size_t nul = bytes.substr(0, invalid).find('\0');
  if (nul != std::string_view::npos) {
    throw DataError("'" + source + "' looks like a binary file: NUL byte at offset " +
                    std::to_string(offset + nul) + "; name a text file");
  }
  if (invalid < bytes.size()) {
    throw DataError("'" + source + "' is not UTF-8: invalid byte at offset " +
                    std::to_string(offset + invalid) + "; convert it, e.g. with iconv");
  }
  std::u32string text(bytes.begin(), rest);
  utf8::utf8to32(rest, bytes.end(), std::back_inserter(text));
  return text;
}

// Number of bytes at the end of `bytes` that are the beginning of a character.
std::size_t begun(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // not the first byte of a character
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::u32string decode_utf8(std::string_view bytes, const std::string& source) {
  return decode(bytes, source, 0);
}

std::string read_text(const std::filesystem::path& path,
                      const std::function<void(std::u32string_view)>& take) {
  const std::string source = path.string();
  Sha256 hash;
  std::string held;  // bytes that are not decoded yet
  std::size_t offset = 0;
  const auto take_first = [&](std::size_t size) {
    take(decode(std::string_view(held).substr(0, size), source, offset));
    held.erase(0, size);
    offset += size;
  };
  read_pieces(path, [&](std::string_view piece) {
    hash.add(piece);
    held += piece;
    take_first(held.size() - begun(held));
  });
  take_first(held.size());
  if (offset == 0) throw empty_file(path);
  return hash.hex();
}

std::string encode_utf8(std::u32string_view text) {
  try {
    return utf8::utf32to8(text);
  } catch (const utf8::invalid_code_point& error) {
    throw DataError(std::to_string(error.code_point()) +
                    " is not a Unicode character; use code points up to 0x10FFFF, no surrogates");
  }
}

}  // namespace headcount
