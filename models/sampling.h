#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/decoder.h"

namespace headcount {

/// Distribution from which the next token is drawn. The filters apply in this order, each to the
/// tokens that the one before left.
struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0 takes the likeliest token
  Index top_k = 0;         ///< keeps the k likeliest tokens; 0: all
  double top_p = 1;        ///< keeps the likeliest tokens that together reach probability p
  double min_p = 0;        ///< keeps tokens at least p times as likely as the likeliest
  std::uint64_t seed = 1;
};

/// Draws a token from `logits` [vocabulary] for position `position` of text number `sequence`: a
/// pure function of its arguments.
std::int32_t sample_token(std::span<const Real> logits, const SamplingOptions& options,
                          Index position, Index sequence = 0);

struct TokenProbability {
  std::int32_t token = 0;
  double probability = 0;
};
/// The `most` likeliest tokens after `logits` [vocabulary], from the likeliest down, with their
/// probabilities among all.
std::vector<TokenProbability> likeliest_tokens(std::span<const Real> logits, Index most);

struct GenerationOptions {
  SamplingOptions sampling;
  Index tokens = 200;    ///< tokens to add to the prompt
  bool cache = true;     ///< keep the KV cache; otherwise rebuild it from the whole text each time
  DecodeOptions decode;  ///< `decode.sequences` is the number of texts that continue the prompt
  /// A text ends as soon as its new tokens end with one of these.
  std::vector<std::vector<std::int32_t>> stops = {};
  /// At the end of the context: true forgets its older half and continues, false stops.
  bool slide = true;
};

struct GenerationResult {
  /// [sequences]: tokens added to the prompt, a stop among them.
  std::vector<std::vector<std::int32_t>> texts;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  Index cache_bytes = 0;  ///< allocated; 0 without cache
};

/// Returns true if `text`, the tokens added to a prompt, ends with one of `stops`.
bool is_stopped(std::span<const std::int32_t> text,
                const std::vector<std::vector<std::int32_t>>& stops);

/// Continues `prompt` (at least one token). `on_token(sequence, token)` is called as tokens come,
/// for all sequences of a position in order. Throws ShapeError if the prompt is empty, and if it is
/// longer than the context and `slide` is off; NonFiniteError as LanguageModel::decode does.
GenerationResult generate(const LanguageModel& model, std::span<const std::int32_t> prompt,
                          const GenerationOptions& options,
                          const std::function<void(Index, std::int32_t)>& on_token = {});

}  // namespace headcount
