#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace headcount {

/// Counter-based random numbers: Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy
/// as 1, 2, 3" (SC 2011). A number is a pure function of (seed, stream, step, index): there is no
/// generator state to save, and threads may draw numbers in any order.
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  ///< purpose: a parameter, a dropout op, the batches
  std::uint32_t step = 0;    ///< number of a batch, or of a sequence while sampling
};

/// Four independent, uniformly distributed 32-bit words for counter `index`.
std::array<std::uint32_t, 4> random_words(const RandomKey& key, std::uint64_t index);

/// Writes `random_words` for counters `first`, `first` + 1, ...; faster than one call for each.
void random_words(const RandomKey& key, std::uint64_t first,
                  std::span<std::array<std::uint32_t, 4>> words);

/// Uniform in [0, 1), 53 bits, for counter `index`.
double random_uniform(const RandomKey& key, std::uint64_t index);

/// Uniform in {0, ..., bound - 1} for counter `index`; bound > 0. The bias is below bound / 2^64.
std::uint64_t random_below(const RandomKey& key, std::uint64_t index, std::uint64_t bound);

/// Standard normal (Box and Muller) for counter `index`.
double random_normal(const RandomKey& key, std::uint64_t index);

/// Number of the stream `name` (FNV-1a hash): initial values of a parameter depend on its name, not
/// on the other parameters of the model.
std::uint32_t random_stream(std::string_view name);

}  // namespace headcount
