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

/// Returns true if the kind offers its queries, keys and values to Canon layer B.
inline bool convolves(const AttentionKind& kind) {
  const AttentionPlan plan = resolve_attention(kind, Given(attention_settings()), {});
  const AttentionDescription description = describe(plan);
  return std::ranges::any_of(description.forms.front().projections,
                             [](const Projection& p) { return !p.convolved.empty(); });
}

/// Returns true if the kind pools rows over blocks of tokens.
inline bool pools(const AttentionKind& kind) {
  const AttentionPlan plan = resolve_attention(kind, Given(attention_settings()), {});
  return std::ranges::any_of(describe(plan).keeps, [](const Kept& k) { return k.block > 0; });
}

/// Returns true if the kind pools rows or picks those that it reads: tokens up to the query must
/// all be seen, and no others.
inline bool sees_all_before(const AttentionKind& kind) {
  const AttentionPlan plan = resolve_attention(kind, Given(attention_settings()), {});
  return pools(kind) || describe(plan).forms.front().picks.has_value();
}

}  // namespace headcount
