#include "data/text.h"

#include <openssl/evp.h>
#include <utf8.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "autograd/error.h"

namespace headcount {

std::string read_file(const std::filesystem::path& path) {
  const std::string file_path = path.string();
  const std::string name = "'" + file_path + "'";
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    throw DataError("there is no file " + name + "; check the path");
  }
  if (std::filesystem::is_directory(status)) {
    throw DataError(name + " is a folder; name a file in it");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  // An empty file leaves only failbit; a failed read leaves badbit.
  if (!file || bytes.bad()) {
    const std::string reason = errno == 0 ? "" : ": " + std::generic_category().message(errno);
    throw DataError(name + " cannot be read" + reason + "; check its permissions");
  }
  std::string content = std::move(bytes).str();
  if (content.empty()) throw DataError(name + " is empty; name a file with text in it");
  return content;
}

std::u32string decode_utf8(std::string_view bytes, const std::string& source) {
  const std::size_t invalid = std::min(utf8::find_invalid(bytes), bytes.size());
  const std::size_t nul = bytes.substr(0, invalid).find('\0');
  if (nul != std::string_view::npos) {
    throw DataError("'" + source + "' looks like a binary file: NUL byte at offset " +
                    std::to_string(nul) + "; name a text file");
  }
  if (invalid < bytes.size()) {
    throw DataError("'" + source + "' is not UTF-8: invalid byte at offset " +
                    std::to_string(invalid) + "; convert it, e.g. with iconv");
  }
  return utf8::utf8to32(bytes);
}

std::string encode_utf8(std::u32string_view text) {
  try {
    return utf8::utf32to8(text);
  } catch (const utf8::invalid_code_point& error) {
    throw DataError(std::to_string(error.code_point()) +
                    " is not a Unicode character; use code points up to 0x10FFFF, no surrogates");
  }
}

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw DataError("OpenSSL computes no SHA-256 here; check its configuration");
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += digits[digest[i] >> 4];
    hex += digits[digest[i] & 15];
  }
  return hex;
}

}  // namespace headcount
