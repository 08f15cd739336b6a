#include "autograd/random.h"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>

namespace headcount {

namespace {

inline std::array<std::uint32_t, 4> philox(const RandomKey& key, std::uint64_t index) {
  using Philox = r123::Philox4x32;
  const Philox::ctr_type counter = {{static_cast<std::uint32_t>(index),
                                     static_cast<std::uint32_t>(index >> 32), key.step,
                                     key.stream}};
  const Philox::key_type seed = {
      {static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32)}};
  const Philox::ctr_type words = Philox{}(counter, seed);
  return {words[0], words[1], words[2], words[3]};
}

std::uint64_t word64(const RandomKey& key, std::uint64_t index) {
  const auto words = philox(key, index);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

}  // namespace

std::array<std::uint32_t, 4> random_words(const RandomKey& key, std::uint64_t index) {
  return philox(key, index);
}

void random_words(const RandomKey& key, std::uint64_t first,
                  std::span<std::array<std::uint32_t, 4>> words) {
  // A loop that the compiler vectorises.
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = philox(key, first + i);
}

double random_uniform(const RandomKey& key, std::uint64_t index) {
  return static_cast<double>(word64(key, index) >> 11) * 0x1.0p-53;
}

std::uint64_t random_below(const RandomKey& key, std::uint64_t index, std::uint64_t bound) {
  // Lemire's reduction: the high half of the product of a random word and the bound.
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((Wide{word64(key, index)} * bound) >> 64);
}

double random_normal(const RandomKey& key, std::uint64_t index) {
  const auto words = random_words(key, index);
  const auto uniform = [](std::uint32_t low, std::uint32_t high) {
    const std::uint64_t word = (std::uint64_t{high} << 32) | low;
    return (static_cast<double>(word >> 11) + 0.5) * 0x1.0p-53;  // never 0: its logarithm is taken
  };
  const double radius = std::sqrt(-2.0 * std::log(uniform(words[0], words[1])));
  return radius * std::cos(2.0 * std::numbers::pi * uniform(words[2], words[3]));
}

std::uint32_t random_stream(std::string_view name) {
  std::uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace headcount
