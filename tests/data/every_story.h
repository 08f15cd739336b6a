#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/story.h"

namespace headcount {

/// A story and its probability, counted by the enumeration itself.
struct Possibility {
  Story story;
  double probability = 1;
};

/// Every story of a grammar: runs `write` with a chooser that walks through all sequences of
/// choices, like an odometer whose wheels appear as the story asks for them.
inline std::vector<Possibility> every_story(const StoryGrammar& write) {
  struct Wheel {
    std::uint64_t position, count;
  };
  std::vector<Wheel> wheels;
  std::vector<Possibility> all;
  do {
    std::size_t depth = 0;
    Possibility next;
    next.story = write([&](std::uint64_t count) {
      if (depth == wheels.size()) wheels.push_back({0, count});
      next.probability /= static_cast<double>(count);
      return wheels[depth++].position;
    });
    all.push_back(next);
    while (!wheels.empty() && ++wheels.back().position == wheels.back().count) wheels.pop_back();
  } while (!wheels.empty());
  return all;
}

}  // namespace headcount
