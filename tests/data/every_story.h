#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/story.h"

namespace headcount {

/// A story and its probability, counted by the enumeration itself.
struct Possibility {
  Story story;
  double probability = 0;
};

/// Every story of a grammar: runs `write` with a chooser that walks through all sequences of
/// choices, like an odometer whose wheels appear as the story asks for them.
std::vector<Possibility> every_story(const StoryGrammar& write);

/// Expects that Story::nats is exact: that the probabilities sum to 1, no text is another's
/// beginning, and nats are the texts' -log p, each and on average. The average is the entropy,
/// which is returned (nats per story).
double expect_exact_nats(const std::vector<Possibility>& all);

}  // namespace headcount
