#include "data/every_story.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace headcount {

std::vector<Possibility> every_story(const StoryGrammar& write) {
  struct Wheel {
    std::uint64_t position, count;
  };
  std::vector<Wheel> wheels;
  std::vector<Possibility> all;
  do {
    std::size_t depth = 0;
    const Story story = write([&](std::uint64_t count, std::string_view) {
      if (depth == wheels.size()) wheels.push_back({0, count});
      return wheels[depth++].position;
    });
    double probability = 1;
    for (const Wheel& wheel : wheels) probability /= static_cast<double>(wheel.count);
    all.push_back({story, probability});
    while (!wheels.empty() && ++wheels.back().position == wheels.back().count) wheels.pop_back();
  } while (!wheels.empty());
  return all;
}

double expect_exact_nats(const std::vector<Possibility>& all) {
  double sum = 0, entropy = 0, mean_nats = 0, largest_error = 0;
  std::vector<std::string> texts;
  for (const auto& [story, probability] : all) {
    sum += probability;
    entropy -= probability * std::log(probability);
    mean_nats += probability * story.nats;
    largest_error = std::max(largest_error, std::abs(story.nats + std::log(probability)));
    texts.push_back(story.text);
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  EXPECT_NEAR(mean_nats, entropy, 1e-9);
  EXPECT_LT(largest_error, 1e-9);

  // In sorted order a text that begins another comes right before one that it begins.
  std::sort(texts.begin(), texts.end());
  for (std::size_t i = 1; i < texts.size(); ++i) {
    if (texts[i].starts_with(texts[i - 1])) {
      ADD_FAILURE() << "ambiguous: '" << texts[i - 1] << "' begins '" << texts[i] << "'";
      break;
    }
  }
  return entropy;
}

}  // namespace headcount
