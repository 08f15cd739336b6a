#include "autograd/base/sha256.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <array>
#include <new>

#include "autograd/base/error.h"

namespace headcount {

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    for (unsigned long error; (error = ERR_get_error()) != 0;) {
      if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) throw std::bad_alloc();
    }
    throw Error("OpenSSL refuses to compute SHA-256; check its configuration");
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i)
    text += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  return text;
}

}  // namespace headcount
