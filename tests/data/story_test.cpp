// What each character of a story is worth, given those before it.
#include "data/story.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "data/every_story.h"
#include "data/grammar.h"
#include "data/tales.h"

namespace headcount {
namespace {

double sum(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

TEST(NatsOfCharacters, AreThoseOfAllStoriesThatBeginAlike) {
  const TalesNames names = {
      .people = {"Ann", "Ben"}, .things = {"cap", "cup"}, .places = {"mill", "meadow", "barn"}};
  const TalesOptions options = {.people = 1, .things = 2, .places = 2, .events = 1, .questions = 1};
  const auto write = [&](const Chooser& chooser) { return tell_tale(options, chooser, names); };
  const std::vector<Possibility> all = every_story(write);
  std::map<std::string, double> beginnings;
  for (const auto& [story, probability] : all) {
    for (std::size_t size = 0; size <= story.text.size(); ++size)
      beginnings[story.text.substr(0, size)] += probability;
  }
  for (std::size_t i = 0; i < all.size(); i += 7) {
    const std::string& text = all[i].story.text;
    const std::vector<double> nats = nats_of_characters(write, text);
    ASSERT_EQ(nats.size(), text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
      const double before = beginnings[text.substr(0, at)];
      EXPECT_NEAR(nats[at], std::log(before / beginnings[text.substr(0, at + 1)]), 1e-9)
          << text << at;
    }
    EXPECT_NEAR(sum(nats), all[i].story.nats, 1e-9);
  }
}

TEST(NatsOfCharacters, AddUpToThoseOfTheStory) {
  const auto tale = [](const Chooser& chooser) { return tell_tale({}, chooser); };
  for (std::uint32_t i = 0; i < 3; ++i) {
    for (const StoryGrammar& write : {StoryGrammar(tale), grammar("lookup")}) {
      const Story story = write(random_chooser({7, 1, i}));
      const std::vector<double> nats = nats_of_characters(write, story.text);
      ASSERT_EQ(nats.size(), story.distances.size());
      EXPECT_NEAR(sum(nats), story.nats, 1e-9) << story.text;
      for (std::size_t at = 0; at < nats.size(); ++at) {
        if (story.distances[at] > 0) {
          EXPECT_NEAR(nats[at], 0, 1e-12) << at;
        }
      }
    }
  }
}

TEST(NatsOfCharacters, NeedNoMoreOfALongStoryThanIsAskedFor) {
  const TalesOptions longest = {.events = 100};
  const auto write = [&](const Chooser& chooser) { return tell_tale(longest, chooser); };
  const std::string text = write(random_chooser({1, 2, 3})).text;
  const std::vector<double> nats = nats_of_characters(write, text.substr(0, 200));
  EXPECT_EQ(nats.size(), 200u);
  EXPECT_NEAR(nats[0], std::log(12.0), 1e-9);  // the first letters of 12 people differ
}

}  // namespace
}  // namespace headcount
