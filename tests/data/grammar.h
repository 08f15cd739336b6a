#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "data/built_in.h"
#include "data/texts/tales.h"

/// What tests of several grammars share.
namespace headcount {

/// Grammar of the built-in corpus `name` with these settings.
inline StoryGrammar grammar(const std::string& name, const nlohmann::json& settings = {}) {
  return find_built_in(name)->writer(
      Given(corpus_settings(), settings).of(corpus_settings(), name));
}

/// Corpus of tales of another size than the built-in one.
template <TalesOptions size>
BuiltInCorpus tales_of() {
  return {.name = "tales", .writer = [](const Given&) -> StoryGrammar {
            return [](const Chooser& chooser) { return tell_tale(size, chooser); };
          }};
}

/// Probability of naming `right` by naming what `counts` has most often, drawn among ties; `guess`
/// if it has nothing.
template <class Key>
double share_of_commonest(const std::map<Key, Index>& counts, const Key& right, double guess) {
  Index most = 0;
  for (const auto& [key, count] : counts) most = std::max(most, count);
  if (most == 0) return guess;
  const auto ties = std::ranges::count(counts, most, [](const auto& c) { return c.second; });
  return counts.contains(right) && counts.at(right) == most ? 1 / static_cast<double>(ties) : 0;
}

inline bool are_near(const Baselines& a, const Baselines& b) {
  const auto near = [](double x, double y) { return std::abs(x - y) < 1e-9; };
  return near(a.guesser, b.guesser) && near(a.copier, b.copier) && near(a.commonest, b.commonest);
}

}  // namespace headcount
