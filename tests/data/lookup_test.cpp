#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "data/grammar.h"

namespace headcount {
namespace {

StoryGrammar lookup(Index kinds) { return grammar("lookup", {{"kinds", kinds}}); }

struct Piece {
  int x, y, value;
};

/// The pieces that a line shows, in their order.
std::vector<Piece> pieces(const std::u32string& line) {
  std::vector<Piece> all;
  for (const char32_t symbol : line.substr(0, 5)) {
    const int code = static_cast<int>(symbol) - 0x2800;
    all.push_back({code % 5, code / 5 % 5, code / 25});
  }
  return all;
}

bool stands_in(const Piece& piece, int kind, int row) {
  return (kind == 5 ? piece.y : (piece.x + kind * piece.y) % 5) == row;
}

/// What a question asks for: the value of the only piece in its row; none where there is not one.
std::optional<int> answer(const std::vector<Piece>& all, char32_t letter) {
  const int number = static_cast<int>(letter >= U'a' ? letter - U'a' + 26 : letter - U'A');
  std::optional<int> value;
  for (const Piece& piece : all) {
    if (!stands_in(piece, number / 5, number % 5)) continue;
    if (value) return std::nullopt;
    value = piece.value;
  }
  return value;
}

const std::u32string kLetters = U"ABCDEFGHIJKLMNOPQRSTUVWXYZabcd";

/// How many questions there are.
Index questions(const std::vector<Piece>& all, Index kinds) {
  return std::ranges::count_if(kLetters.substr(0, static_cast<std::size_t>(5 * kinds)),
                               [&](char32_t letter) { return answer(all, letter).has_value(); });
}

/// A line with questions of any kinds.
struct AnyLine {
  Index kinds = *rc::gen::inRange<Index>(1, 7);
  Story story = lookup(kinds)(random_chooser({*rc::gen::arbitrary<std::uint64_t>(), 1, 2}));
  std::u32string line = decode_utf8(story.text, "lookup");
  std::vector<Piece> all = pieces(line);
};

TEST(Lookup, AsksForPiecesThatStandAloneInTheirRow) {
  EXPECT_TRUE(rc::check([] {
    const auto [kinds, story, line, all] = AnyLine();
    RC_ASSERT(std::ssize(line) == 16);
    RC_ASSERT(line.back() == U'\n');
    RC_ASSERT(story.distances.size() == line.size());
    const std::size_t end = std::min(line.find(U'.'), line.size() - 1);
    const auto asked = static_cast<Index>(end - 5) / 2;
    RC_ASSERT(asked == std::min<Index>(5, questions(all, kinds)));
    RC_ASSERT(line.substr(end) == std::u32string(15 - end, U'.') + U"\n");
    std::set<char32_t> letters;
    for (std::size_t i = 5; i < end; i += 2) {
      letters.insert(line[i]);
      RC_ASSERT(kLetters.find(line[i]) < static_cast<std::size_t>(5 * kinds));
      RC_ASSERT(answer(all, line[i]) == static_cast<int>(line[i + 1] - U'0'));
    }
    RC_ASSERT(std::ssize(letters) == asked);  // none twice
    for (std::size_t i = 0; i < line.size(); ++i)
      RC_ASSERT((story.distances[i] > 0) == (i > 5 && i < end && i % 2 == 0));
    for (std::size_t i = 6; i < end; i += 2) {
      const std::size_t piece = i - static_cast<std::size_t>(story.distances[i]);
      RC_ASSERT(piece < all.size());
      const auto number = static_cast<int>(kLetters.find(line[i - 1]));
      RC_ASSERT(stands_in(all[piece], number / 5, number % 5));
    }
  }));
}

// The share of those that `counts` has most often that `value` is.
double commonest(const std::map<int, int>& counts, int value) {
  int most = 0;
  for (const auto& [other, count] : counts) most = std::max(most, count);
  const auto alike = std::ranges::count(counts, most, [](const auto& c) { return c.second; });
  return counts.contains(value) && counts.at(value) == most ? 1.0 / static_cast<double>(alike) : 0;
}

TEST(Lookup, BaselinesAreThoseOfTheValuesThatTheLineShows) {
  EXPECT_TRUE(rc::check([] {
    const auto [kinds, story, line, all] = AnyLine();
    std::map<int, int> board, answers;
    for (const Piece& piece : all) ++board[piece.value];
    Baselines right;
    for (std::size_t i = 6; i < line.size(); i += 2) {
      if (story.distances[i] == 0) continue;
      const int value = static_cast<int>(line[i] - U'0');
      right += {.guesser = 0.25,
                .copier = answers.empty() ? 0.25 : commonest(answers, value),
                .commonest = commonest(board, value)};
      ++answers[value];
    }
    RC_ASSERT(std::abs(story.baselines.guesser - right.guesser) < 1e-9);
    RC_ASSERT(std::abs(story.baselines.copier - right.copier) < 1e-9);
    RC_ASSERT(std::abs(story.baselines.commonest - right.commonest) < 1e-9);
  }));
}

// Each choice can be read from the text, and costs what it costs among equally likely ones.
TEST(Lookup, NatsAreThoseOfTheChoicesThatTheTextShows) {
  EXPECT_TRUE(rc::check([] {
    const auto [kinds, story, line, all] = AnyLine();
    std::set<std::pair<int, int>> squares;
    for (const Piece& piece : all) squares.insert({piece.x, piece.y});
    RC_ASSERT(squares.size() == 5u);
    double nats = std::log(25.0 * 24 * 23 * 22 * 21) + 5 * std::log(4.0);
    Index left = questions(all, kinds);
    for (int i = 0; i < 5 && left > 0; ++i, --left) nats += std::log(static_cast<double>(left));
    RC_ASSERT(std::abs(story.nats - nats) < 1e-9);
  }));
}

TEST(Lookup, EndsInDotsWhereNoPieceStandsAlone) {
  // Squares 0, 5, 10 of the first column, 1 and 6 of the second.
  const std::vector<std::uint64_t> choices = {0, 0, 4, 0, 8, 0, 0, 0, 3, 0};
  std::size_t next = 0;
  const Story story = lookup(1)(
      [&](std::uint64_t) { return next < choices.size() ? choices[next++] : std::uint64_t{0}; });
  const std::u32string line = decode_utf8(story.text, "lookup");
  std::map<int, int> columns;
  for (const Piece& piece : pieces(line)) ++columns[piece.x];
  ASSERT_EQ(columns, (std::map<int, int>{{0, 3}, {1, 2}}));
  EXPECT_EQ(line.substr(5), std::u32string(10, U'.') + U"\n");
  EXPECT_EQ(story.distances, std::vector<std::int32_t>(16, 0));
}

}  // namespace
}  // namespace headcount
