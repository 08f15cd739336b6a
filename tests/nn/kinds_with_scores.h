#pragma once

#include <algorithm>
#include <iterator>
#include <vector>

#include "nn/attention/kind.h"

namespace headcount {

/// Attentions with scores of pairs of tokens; with `scores` false, those with recurrent states.
inline std::vector<const AttentionKind*> kinds_with_scores(bool scores = true) {
  std::vector<const AttentionKind*> kinds;
  std::ranges::copy_if(attention_kinds(), std::back_inserter(kinds),
                       [&](const AttentionKind* kind) { return kind->attends == scores; });
  return kinds;
}

}  // namespace headcount
