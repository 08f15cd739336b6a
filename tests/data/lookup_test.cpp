#include "data/recall.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <map>
#include <string>

#include "autograd/error.h"
#include "data/every_story.h"

namespace headcount {
namespace {

TEST(Recall, WritesPairsGapAndQueries) {
  const auto first = [](std::uint64_t) { return std::uint64_t{0}; };
  const Story story = write_recall({.pairs = 2, .keys = 3, .gap = 4}, first);
  EXPECT_EQ(story.text, "a0 b0 ....| a0 b0\n");
  EXPECT_NEAR(story.nats, std::log(3 * 10 * 2 * 10) + std::log(2), 1e-12);
}

TEST(Recall, EveryAnswerIsTheValueGivenForItsKey) {
  EXPECT_TRUE(rc::check([] {
    const auto keys = *rc::gen::inRange(1, 53);
    const auto pairs = *rc::gen::inRange(1, keys + 1);
    const auto gap = *rc::gen::inRange(0, 20);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const Story story = write_recall({pairs, keys, gap}, random_chooser({seed, 1, 2}));
    RC_ASSERT(std::ssize(story.text) == 6 * pairs + gap + 2);
    RC_ASSERT(story.answers.size() == story.text.size());

    const std::size_t bar = story.text.find('|');
    std::map<char, char> values;
    for (std::size_t i = 0; i < static_cast<std::size_t>(pairs); ++i) {
      values[story.text[3 * i]] = story.text[3 * i + 1];
    }
    RC_ASSERT(std::ssize(values) == pairs);
    int answers = 0;
    for (std::size_t i = 0; i < story.text.size(); ++i) {
      if (!story.answers[i]) continue;
      ++answers;
      RC_ASSERT(i > bar);
      RC_ASSERT(values.at(story.text[i - 1]) == story.text[i]);
    }
    RC_ASSERT(answers == pairs);
  }));
}

TEST(Recall, NatsAreExactOverAllLines) {
  const RecallOptions options = {.pairs = 2, .keys = 3, .gap = 1};
  const auto all =
      every_story([&](const Chooser& chooser) { return write_recall(options, chooser); });
  EXPECT_EQ(all.size(), 3u * 10 * 2 * 10 * 2);
  EXPECT_NEAR(expect_exact_nats(all), std::log(1200), 1e-9);
}

TEST(Recall, RefusesOptionsOutOfRange) {
  const auto write = [](const RecallOptions& options) {
    write_recall(options, random_chooser({1, 2, 3}));
  };
  EXPECT_THROW(write({.pairs = 1, .keys = 53}), DataError);
  EXPECT_THROW(write({.pairs = 1, .keys = 0}), DataError);
  EXPECT_THROW(write({.pairs = 0}), DataError);
  EXPECT_THROW(write({.pairs = 1, .gap = -1}), DataError);
  try {
    write({.pairs = 9, .keys = 8});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(std::string(error.what()), "pairs is 9 but must be 1 to 8");
  }
}

}  // namespace
}  // namespace headcount
