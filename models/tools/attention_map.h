#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/decoder.h"

namespace headcount {

/// Attention weights of one head over a text of `length` tokens.
struct HeadMap {
  Index length = 0;
  std::vector<Real> weights;  ///< [length, length]: row t has token t's weight of each token
  bool sinks = false;         ///< a row's sum is less than 1 by the weight of the head's sink

  std::span<const Real> row(Index token) const;
  /// Entropy of the attention weights of `token`, that of a sink included, nats: 0 if it attends to
  /// one token only, log n if it attends to n tokens equally. The tokens of a pooled row share its
  /// weight, which makes the entropy greater than that of AttentionStats, where it is one key.
  double entropy(Index token) const;
};

/// Attention maps of all heads [layers][heads], from a forward pass over `tokens`, which must fit
/// into the context. A layer with a state has no scores, hence no maps. With `rounding`, keys come
/// from a cache that rounds so, without recent tokens.
std::vector<std::vector<HeadMap>> attention_maps(
    const LanguageModel& model, std::span<const std::int32_t> tokens,
    const std::optional<CacheRounding>& rounding = std::nullopt);

}  // namespace headcount
