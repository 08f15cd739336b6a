#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace headcount {

/// SHA-256 (FIPS 180-4) of bytes that come piece by piece, by OpenSSL where the build has it.
/// Throws Error if OpenSSL refuses.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void add(std::string_view bytes);
  /// The hash as 64 lower-case hexadecimal digits; nothing can be added after it.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace headcount
