#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/language_model.h"

namespace headcount {

/// What one head looks at in a text of `length` tokens.
struct HeadMap {
  Index length = 0;
  std::vector<Real> weights;  ///< [length, length]: row t has what token t gives to each token

  std::span<const Real> row(Index token) const;
  /// Of a row, nats: 0 where it looks at one token, log n where at n tokens alike.
  double entropy(Index token) const;
};

/// The maps of all heads, layer by layer: none of a layer without scores, whose tokens go into a
/// state. Computed from the scores of a forward pass over `tokens`, which are no longer than the
/// context.
std::vector<std::vector<HeadMap>> attention_maps(const LanguageModel& model,
                                                 std::span<const std::int32_t> tokens);

}  // namespace headcount
