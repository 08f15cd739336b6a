#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // of OpenSSL

namespace headcount {

/// SHA-256 (FIPS 180-4) of bytes that come piece by piece, by OpenSSL. Throws Error if OpenSSL
/// refuses.
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

}  // namespace headcount
