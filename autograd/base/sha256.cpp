#include "autograd/base/sha256.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include <array>
#include <new>

#include "autograd/base/error.h"

namespace headcount {

namespace {

void check(int result) {
  if (result == 1) return;
  for (unsigned long error; (error = ERR_get_error()) != 0;) {
    if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) throw std::bad_alloc();
  }
  throw Error("OpenSSL refuses to compute SHA-256; check its configuration");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::add(std::string_view bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i)
    text += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

}  // namespace headcount
