#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "nn/attention/costs.h"

namespace headcount {

/// Name of a test of that kind.
inline std::string name_of(const testing::TestParamInfo<const AttentionKind*>& kind) {
  std::string name(kind.param->name);
  std::ranges::replace(name, '-', '_');
  return name;
}

/// Attentions with scores of pairs of tokens; with `scores` false, those with recurrent states.
inline std::vector<const AttentionKind*> kinds_with_scores(bool scores = true) {
  std::vector<const AttentionKind*> kinds;
  std::ranges::copy_if(attention_kinds(), std::back_inserter(kinds),
                       [&](const AttentionKind* kind) { return kind->attends == scores; });
  return kinds;
}

/// Returns true if the kind offers its queries, keys and values to Canon layer B.
inline bool convolves(const AttentionKind& kind) {
  Given given(attention_settings());
  given.put("canon", "B");
  try {
    cache_parts(resolve_attention(kind, given, {}));
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

/// The kind with its defaults.
inline AttentionPlan default_plan(const AttentionKind& kind) {
  return resolve_attention(kind, Given(attention_settings()), {});
}

/// Returns true if the kind pools rows over blocks of tokens.
inline bool pools(const AttentionKind& kind) {
  return std::ranges::any_of(cache_parts(default_plan(kind)),
                             [](const Kept& kept) { return kept.block > 0; });
}

}  // namespace headcount
