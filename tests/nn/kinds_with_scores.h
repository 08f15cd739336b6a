#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "nn/attention/kind.h"

namespace headcount {

/// The attentions whose tokens see others one by one, so that there are scores; or those without.
inline std::vector<const AttentionKind*> kinds_with_scores(bool scores = true) {
  std::vector<const AttentionKind*> kinds;
  std::ranges::copy_if(attention_kinds(), std::back_inserter(kinds),
                       [&](const AttentionKind* kind) { return kind->attends == scores; });
  return kinds;
}

}  // namespace headcount
