#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

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

const std::u32string kLetters = U"ABCDEFGHIJKLMNOPQRSTUVWXYZabcd";

/// What a question asks for: the value of the only piece in its row; none where there is not one.
std::optional<int> answer(const std::vector<Piece>& all, char32_t letter) {
  const auto number = static_cast<int>(kLetters.find(letter));
  std::optional<int> value;
  for (const Piece& piece : all) {
    if (!stands_in(piece, number / 5, number % 5)) continue;
    if (value) return std::nullopt;
    value = piece.value;
  }
  return value;
}

/// A line with questions of any kinds.
struct AnyLine {
  Index kinds = *rc::gen::inRange<Index>(1, 7);
  Story story = lookup(kinds)(random_chooser({*rc::gen::arbitrary<std::uint64_t>(), 1, 2}));
  std::u32string line = decode_utf8(story.text, "lookup");
  std::vector<Piece> all = pieces(line);
  std::u32string letters = kLetters.substr(0, static_cast<std::size_t>(5 * kinds));
  /// Number of questions that can be asked.
  Index questions = std::ranges::count_if(
      letters, [&](char32_t letter) { return answer(all, letter).has_value(); });
};

RC_GTEST_PROP(Lookup, AsksForPiecesThatStandAloneInTheirRow, ()) {
  const auto [kinds, story, line, all, letters, questions] = AnyLine();
  RC_ASSERT(std::ssize(line) == 16);
  RC_ASSERT(story.distances.size() == line.size());
  const std::size_t end = std::min(line.find(U'.'), line.size() - 1);
  RC_ASSERT(line.substr(end) == std::u32string(15 - end, U'.') + U"\n");
  std::set<char32_t> asked;
  for (std::size_t i = 0; i < line.size(); ++i) {
    RC_ASSERT((story.distances[i] > 0) == (i > 5 && i < end && i % 2 == 0));
    if (story.distances[i] == 0) continue;
    const char32_t letter = line[i - 1];
    const auto number = static_cast<int>(letters.find(letter));
    asked.insert(letter);
    RC_ASSERT(answer(all, letter) == static_cast<int>(line[i] - U'0'));
    RC_ASSERT(stands_in(all.at(i - story.distances[i]), number / 5, number % 5));
  }
  RC_ASSERT(std::ssize(asked) == std::min<Index>(5, questions));
  RC_ASSERT(end == 5 + 2 * asked.size());  // none twice
}

RC_GTEST_PROP(Lookup, BaselinesAreThoseOfTheValuesThatTheLineShows, ()) {
  const auto [kinds, story, line, all, letters, questions] = AnyLine();
  std::map<int, Index> board, answers;
  for (const Piece& piece : all) ++board[piece.value];
  Baselines right;
  for (std::size_t i = 6; i < line.size(); i += 2) {
    if (story.distances[i] == 0) continue;
    const int value = static_cast<int>(line[i] - U'0');
    right += {.guesser = 0.25,
              .copier = share_of_commonest(answers, value, 0.25),
              .commonest = share_of_commonest(board, value, 0.25)};
    ++answers[value];
  }
  RC_ASSERT(are_near(story.baselines, right));
}

// Each choice can be read from the text, and costs what it costs among equally likely ones.
RC_GTEST_PROP(Lookup, NatsAreThoseOfTheChoicesThatTheTextShows, ()) {
  const auto [kinds, story, line, all, letters, questions] = AnyLine();
  std::set<std::pair<int, int>> squares;
  for (const Piece& piece : all) squares.insert({piece.x, piece.y});
  RC_ASSERT(squares.size() == 5u);
  double nats = std::log(25.0 * 24 * 23 * 22 * 21) + 5 * std::log(4.0);
  for (Index i = 0; i < std::min<Index>(5, questions); ++i)
    nats += std::log(static_cast<double>(questions - i));
  RC_ASSERT(std::abs(story.nats - nats) < 1e-9);
}

}  // namespace
}  // namespace headcount
