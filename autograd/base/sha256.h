#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace headcount {

/// SHA-256 (FIPS 180-4) of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  /// 64 lower-case hexadecimal digits; `add` must not follow.
  std::string hex();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

/// SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

/// SHA-256, as sha256_hex, of the bytes of a file, which is read piece by piece. Throws as
/// `read_file`, but accepts an empty file.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace headcount
