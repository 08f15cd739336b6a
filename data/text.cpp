#include "data/text.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <memory>
#include <new>
#include <system_error>
#include <vector>

#include "autograd/error.h"

namespace headcount {

namespace {

// Closes the descriptor with the object.
class OpenFile {
 public:
  // Throws DataError if the path is no file that can be read; bad_alloc if the system lacks the
  // memory.
  explicit OpenFile(const std::filesystem::path& path) : name_("'" + path.string() + "'") {
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0 && (errno == ENOENT || errno == ENOTDIR))
      throw DataError("there is no file " + name_ + "; check the path");
    if (file_ < 0) fail();
    struct stat status = {};
    if (::fstat(file_, &status) < 0) {
      const int error = errno;
      ::close(file_);
      errno = error;
      fail();
    }
    if (S_ISDIR(status.st_mode)) {
      ::close(file_);
      throw DataError(name_ + " is a folder; name a file in it");
    }
    if (S_ISREG(status.st_mode)) size_ = static_cast<std::size_t>(status.st_size);
  }
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::string& name() const { return name_; }
  // 0 for pipes, and for files whose size the system does not know.
  std::size_t size() const { return size_; }

  // Calls `take` with the bytes, piece by piece, to the end. Throws DataError for a read that fails
  // or ends before the file does: no part of a file may pass for the whole.
  template <class Take>
  void read(const Take& take) const {
    std::vector<char> piece(std::size_t{1} << 16);
    std::size_t total = 0;
    while (true) {
      const ssize_t count = ::read(file_, piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail();
      if (count == 0) break;
      total += static_cast<std::size_t>(count);
      take(std::string_view(piece.data(), static_cast<std::size_t>(count)));
    }
    if (total < size_) {
      throw DataError(name_ + " ended after " + std::to_string(total) + " of " +
                      std::to_string(size_) + " bytes; let nothing else write it");
    }
  }

 private:
  [[noreturn]] void fail() const {
    if (errno == ENOMEM) throw std::bad_alloc();
    throw DataError(name_ + " cannot be read: " + std::generic_category().message(errno) +
                    "; check its permissions");
  }

  std::string name_;
  int file_ = -1;
  std::size_t size_ = 0;
};

// SHA-256 of bytes that come piece by piece.
class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new()) {
    if (context_ == nullptr) throw std::bad_alloc();
    check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  }
  void add(std::string_view bytes) {
    check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size));
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text;
    for (unsigned int i = 0; i < size; ++i) {
      text += digits[digest[i] >> 4];
      text += digits[digest[i] & 15];
    }
    return text;
  }

 private:
  static void check(int result) {
    if (result == 1) return;
    for (unsigned long error; (error = ERR_get_error()) != 0;) {
      if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) throw std::bad_alloc();
    }
    throw Error("OpenSSL computes no SHA-256 here; check its configuration");
  }

  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::none) {
    throw DataError("'" + path.string() + "' cannot be read: " + error.message() +
                    "; check its permissions");
  }
  return std::filesystem::exists(status);
}

std::string read_file(const std::filesystem::path& path) {
  const OpenFile file(path);
  std::string content;
  content.reserve(file.size());
  file.read([&](std::string_view piece) { content += piece; });
  if (content.empty()) throw DataError(file.name() + " is empty; name a file with text in it");
  return content;
}

namespace {

// The code points of `bytes`, which stand at `offset` of `source`.
std::u32string decode(std::string_view bytes, const std::string& source, std::size_t offset) {
  // Most texts begin with ASCII or consist of it, and copying ASCII is faster than decoding it.
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

// Number of bytes at the end of `bytes` that begin a character which more bytes may complete.
std::size_t begun(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // the second byte of a character, or a later one
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
  const OpenFile file(path);
  const std::string source = path.string();
  Hash hash;
  std::string held;  // what was read and not taken yet
  std::size_t offset = 0;
  const auto take_first = [&](std::size_t size) {
    take(decode(std::string_view(held).substr(0, size), source, offset));
    held.erase(0, size);
    offset += size;
  };
  file.read([&](std::string_view piece) {
    hash.add(piece);
    held += piece;
    take_first(held.size() - begun(held));
  });
  take_first(held.size());
  if (offset == 0) throw DataError(file.name() + " is empty; name a file with text in it");
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

std::string sha256_hex(std::string_view bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  const OpenFile file(path);
  Hash hash;
  file.read([&](std::string_view piece) { hash.add(piece); });
  return hash.hex();
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+,.:/@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos)
    return std::string(text);
  // Between single quotes only the quote itself is special. A control character, or a byte that is
  // not UTF-8, would not survive a terminal or a page, so printf writes it.
  const bool is_text = utf8::is_valid(text);
  std::string word = "'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\'') {
      word += "'\\''";
    } else if ((code < 0x20 && c != '\n') || code == 0x7f || (code >= 0x80 && !is_text)) {
      const char octal[] = {static_cast<char>('0' + code / 64),
                            static_cast<char>('0' + code / 8 % 8),
                            static_cast<char>('0' + code % 8)};
      word += "'\"$(printf '\\" + std::string(octal, 3) + "')\"'";
    } else {
      word += c;
    }
  }
  return word + "'";
}

}  // namespace headcount
