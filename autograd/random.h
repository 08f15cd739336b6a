#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace headcount {

/// Counter-based random numbers: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy
/// as 1, 2, 3" (SC 2011). A number is a pure function of (seed, stream, step, index), so there is
/// no generator state to save, and any thread may draw any of them in any order.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< one use of randomness: a parameter, a dropout layer, the batches
  std::uint32_t step = 0;    ///< training step, or sequence while sampling
};

/// Four independent, uniformly distributed 32-bit words for counter `index`.
std::array<std::uint32_t, 4> random_words(const RandomKey& key, std::uint64_t index);

/// Random words for counters `first`, `first` + 1, ..., as above; faster than one call each.
void random_words(const RandomKey& key, std::uint64_t first,
                  std::span<std::array<std::uint32_t, 4>> words);

/// Uniform in [0, 1), 53 bits, for counter `index`.
double random_uniform(const RandomKey& key, std::uint64_t index);

/// Uniform in {0, ..., bound - 1} for counter `index`; bound > 0. The bias is below bound / 2^64.
std::uint64_t random_below(const RandomKey& key, std::uint64_t index, std::uint64_t bound);

/// Standard normal (Box and Muller) for counter `index`.
double random_normal(const RandomKey& key, std::uint64_t index);

/// Normal numbers for counters `first`, `first` + 1, ..., as above; faster than one call each.
void random_normals(const RandomKey& key, std::uint64_t first, std::span<double> numbers);

/// A stream number made from a name (FNV-1a), so that a parameter's initial values depend on its
/// own name and not on which other parameters the model has.
std::uint32_t random_stream(std::string_view name);

}  // namespace headcount
