#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "data/corpus.h"
#include "data/grammar.h"
#include "support/message_of.h"

namespace headcount {
namespace {

struct Piece {
  int x, y, value;
};

/// A line about a board of any side, with questions in any number of directions.
struct AnyLine {
  int side = *rc::gen::element(5, 7, 11);
  int directions = *rc::gen::inRange(0, side + 2);  // 0: questions name squares
  Story story = grammar("lookup", {{"side", std::to_string(side)}, {"directions", directions}})(
      random_chooser({*rc::gen::arbitrary<std::uint64_t>(), 1, 2}));
  std::u32string line = decode_utf8(story.text, "lookup");
  std::vector<Piece> all = pieces();
  /// Number of questions that can be asked.
  Index questions =
      std::ranges::count_if(letters(), [&](char32_t letter) { return answer(letter).has_value(); });

  /// The pieces that the line shows, in their order.
  std::vector<Piece> pieces() const {
    std::vector<Piece> shown;
    for (const char32_t symbol : line.substr(0, 5)) {
      const int code = static_cast<int>(symbol) - (side == 11 ? 0x4E00 : 0x2800);
      shown.push_back({code % side, code / side % side, code / (side * side)});
    }
    return shown;
  }

  std::u32string letters() const {
    std::u32string some = U"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (char32_t cyrillic = 0x400; some.size() < 12 * 11; ++cyrillic) some += cyrillic;
    return some.substr(0, static_cast<std::size_t>(side * (directions == 0 ? side : directions)));
  }

  bool stands_on(const Piece& piece, char32_t letter) const {
    const auto number = static_cast<int>(letters().find(letter));
    if (directions == 0) return number == piece.x + side * piece.y;
    const int direction = number / side, line_number = number % side;
    return (direction == side ? piece.y : (piece.x + direction * piece.y) % side) == line_number;
  }

  /// What a question asks for: the value of the only piece there; none where there is not one.
  std::optional<int> answer(char32_t letter) const {
    std::optional<int> value;
    for (const Piece& piece : all) {
      if (!stands_on(piece, letter)) continue;
      if (value) return std::nullopt;
      value = piece.value;
    }
    return value;
  }
};

RC_GTEST_PROP(Lookup, AsksForPiecesThatStandAloneOnTheirLineOrForSquares, ()) {
  const AnyLine any;
  const auto& [side, directions, story, line, all, questions] = any;
  RC_ASSERT(std::ssize(line) == 16);
  RC_ASSERT(story.distances.size() == line.size());
  const std::size_t end = std::min(line.find(U'.'), line.size() - 1);
  RC_ASSERT(line.substr(end) == std::u32string(15 - end, U'.') + U"\n");
  std::set<char32_t> asked;
  for (std::size_t i = 0; i < line.size(); ++i) {
    RC_ASSERT((story.distances[i] > 0) == (i > 5 && i < end && i % 2 == 0));
    if (story.distances[i] == 0) continue;
    const char32_t letter = line[i - 1];
    asked.insert(letter);
    RC_ASSERT(any.answer(letter) == static_cast<int>(line[i] - U'0'));
    RC_ASSERT(any.stands_on(all.at(i - story.distances[i]), letter));
  }
  RC_ASSERT(std::ssize(asked) == std::min<Index>(5, questions));
  RC_ASSERT(end == 5 + 2 * asked.size());  // none twice
}

RC_GTEST_PROP(Lookup, BaselinesAreThoseOfTheValuesThatTheLineShows, ()) {
  const AnyLine any;
  const auto& [side, directions, story, line, all, questions] = any;
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

TEST(Lookup, KnowsTheDirectionsInWhichItsQuestionsAsk) {
  const std::u32string letters = U"ABCDEFGHIJKLMNO";
  for (const Index directions : {0, 3}) {
    CorpusOptions options{.characters = 2000};
    options.own.put("directions", directions);
    Corpus corpus = load_corpus("lookup", options);
    const std::u32string reversed(corpus.vocabulary.symbols().rbegin(),
                                  corpus.vocabulary.symbols().rend());
    for (const bool adopted : {false, true}) {
      if (adopted) adopt_vocabulary(corpus, Vocabulary(reversed));
      const std::u32string& symbols = corpus.vocabulary.symbols();
      ASSERT_EQ(corpus.directions.size(), symbols.size());
      for (std::size_t token = 0; token < symbols.size(); ++token) {
        const auto letter = static_cast<Index>(letters.find(symbols[token]));
        EXPECT_EQ(corpus.directions[token], directions > 0 && letter >= 0 ? letter / 5 : -1);
      }
    }
  }
}

TEST(Lookup, HasOneDirectionMoreThanItsSideAtMost) {
  const auto& lookup = *find_built_in("lookup");
  for (const auto& use : {std::function([&](const Given& given) { lookup.writer(given); }),
                          std::function([&](const Given& given) { lookup.story_length(given); })}) {
    EXPECT_EQ(message_of<ShapeError>([&] {
                use(Given(corpus_settings(), {{"directions", 7}}).of(corpus_settings(), "lookup"));
              }),
              "`directions` must be at most 6, `side` plus 1, is 7");
  }
}

// Each choice can be read from the text, and costs what it costs among equally likely ones.
RC_GTEST_PROP(Lookup, NatsAreThoseOfTheChoicesThatTheTextShows, ()) {
  const AnyLine any;
  const auto& [side, directions, story, line, all, questions] = any;
  std::set<std::pair<int, int>> squares;
  for (const Piece& piece : all) squares.insert({piece.x, piece.y});
  RC_ASSERT(squares.size() == 5u);
  double nats = 5 * std::log(4.0);
  for (int i = 0; i < 5; ++i) nats += std::log(side * side - i);
  for (Index i = 0; i < std::min<Index>(5, questions); ++i)
    nats += std::log(static_cast<double>(questions - i));
  RC_ASSERT(std::abs(story.nats - nats) < 1e-9);
}

}  // namespace
}  // namespace headcount
