#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/language_model.h"

namespace headcount {

/// How the next token is drawn from the logits.
struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0 takes the likeliest token
  std::uint64_t seed = 1;
};

/// Token drawn for position `position` of a text from `logits` [vocabulary]: a pure function of its
/// arguments.
std::int32_t sample_token(std::span<const Real> logits, const SamplingOptions& options,
                          Index position);

/// `prompt` continued by `count` tokens. Each comes from a forward pass over the last
/// `context` tokens.
std::vector<std::int32_t> sample_tokens(const LanguageModel& model,
                                        std::vector<std::int32_t> prompt, Index count,
                                        const SamplingOptions& options);

}  // namespace headcount
