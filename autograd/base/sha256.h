#pragma once

#include <string>
#include <string_view>

namespace headcount {

/// SHA-256 (FIPS 180-4) of `bytes`, by OpenSSL, as 64 lower-case hexadecimal digits. Throws Error
/// if OpenSSL refuses.
std::string sha256_hex(std::string_view bytes);

}  // namespace headcount
