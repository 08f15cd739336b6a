#include "autograd/base/sha256.h"

#include <array>
#include <cstdint>
#include <span>

#ifdef HEADCOUNT_OPENSSL
#include <openssl/err.h>
#include <openssl/evp.h>

#include <new>

#include "autograd/base/error.h"
#else
#include <algorithm>
#include <bit>
#endif

namespace headcount {

namespace {

std::string hexadecimal(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) text += {kDigits[byte >> 4], kDigits[byte & 15]};
  return text;
}

}  // namespace

#ifdef HEADCOUNT_OPENSSL

namespace {

void check(int result) {
  if (result == 1) return;
  for (unsigned long error; (error = ERR_get_error()) != 0;) {
    if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE) throw std::bad_alloc();
  }
  throw Error("OpenSSL refuses to compute SHA-256; check its configuration");
}

struct Free {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

struct Sha256::Context {
  std::unique_ptr<EVP_MD_CTX, Free> of_openssl{EVP_MD_CTX_new()};
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (context_->of_openssl == nullptr) throw std::bad_alloc();
  check(EVP_DigestInit_ex(context_->of_openssl.get(), EVP_sha256(), nullptr));
}

void Sha256::add(std::string_view bytes) {
  check(EVP_DigestUpdate(context_->of_openssl.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(context_->of_openssl.get(), digest.data(), &size));
  return hexadecimal(std::span(digest).first(size));
}

#else

namespace {

constexpr std::size_t kBlock = 64;  // bytes

// FIPS 180-4, section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the
// first 64 primes.
constexpr std::array<std::uint32_t, 64> kConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

struct Sha256::Context {
  // FIPS 180-4, section 5.3.3: of the square roots of the first 8 primes.
  std::array<std::uint32_t, 8> hash = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlock> block{};
  std::size_t held = 0;     // bytes of the block
  std::uint64_t bytes = 0;  // added so far

  void take(unsigned char byte) {
    block[held++] = byte;
    if (held < kBlock) return;
    compress();
    held = 0;
  }
  void compress();
};

// FIPS 180-4, section 6.2.2.
void Sha256::Context::compress() {
  std::array<std::uint32_t, 64> words{};
  for (std::size_t i = 0; i < kBlock; ++i) words[i / 4] = words[i / 4] << 8 | block[i];
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t a = words[t - 15], b = words[t - 2];
    words[t] = words[t - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[t - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = hash;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t sum = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t first = h + sum + ((e & f) ^ (~e & g)) + kConstants[t] + words[t];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first;
    d = c, c = b, b = a, a = first + second;
  }
  const std::array<std::uint32_t, 8> more = {a, b, c, d, e, f, g, h};
  std::ranges::transform(hash, more, hash.begin(), std::plus());
}

Sha256::Sha256() : context_(std::make_unique<Context>()) {}

void Sha256::add(std::string_view bytes) {
  context_->bytes += bytes.size();
  for (const char byte : bytes) context_->take(static_cast<unsigned char>(byte));
}

std::string Sha256::hex() {
  const std::uint64_t bits = 8 * context_->bytes;
  context_->take(0x80);
  while (context_->held != kBlock - 8) context_->take(0);
  for (int shift = 56; shift >= 0; shift -= 8)
    context_->take(static_cast<unsigned char>(bits >> shift));
  std::array<unsigned char, 32> digest{};
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<unsigned char>(context_->hash[i / 4] >> (24 - 8 * (i % 4)));
  return hexadecimal(digest);
}

#endif

Sha256::~Sha256() = default;

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

}  // namespace headcount
