#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // EVP_MD_CTX of OpenSSL

namespace headcount {

/// SHA-256 (FIPS 180-4) of bytes that come piece by piece. Throws Error if OpenSSL refuses.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  /// The hash as 64 lower-case hexadecimal digits; nothing can be added after it.
  std::string hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

/// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

/// SHA-256 of the bytes of a file, as 64 lower-case hexadecimal digits. Throws DataError as
/// `read_pieces` does.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace headcount
