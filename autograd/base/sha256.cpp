#include "autograd/base/sha256.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <array>
#include <new>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

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
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += formatted("%02x", digest[i]);
  return text;
}

}  // namespace headcount
