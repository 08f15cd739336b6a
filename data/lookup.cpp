#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/text.h"
#include "data/built_in.h"

namespace headcount {

namespace {

// Side of the board. 5 is a prime, so that the squares form rows in 5 + 1 directions of which any
// two cross in one square.
constexpr Index kSide = 5, kMostKinds = kSide + 1;
constexpr Index kPieces = 5, kQuestions = 5;
// Characters per line: pieces, questions with their answers, and a newline.
constexpr Index kLine = kPieces + 2 * kQuestions + 1;
constexpr std::array<std::string_view, 4> kValues = {"0", "1", "2", "3"};

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcd";  // one for each row
static_assert(kLetters.size() == kMostKinds * kSide);

struct Piece {
  Index square = 0, value = 0;

  /// Row of `kind` in which the piece stands.
  Index row(Index kind) const {
    const Index x = square % kSide, y = square / kSide;
    return kind == kMostKinds - 1 ? y : (x + kind * y) % kSide;
  }
  std::string character() const {
    constexpr char32_t kBraille = 0x2800;  // 256 characters that look like dots on dice
    return encode_utf8(std::u32string(1, kBraille + square + kSide * kSide * value));
  }
};

struct Question {
  char letter;
  Index answer, piece;
};

/// Questions for all rows in which one piece stands alone.
std::vector<Question> questions(const std::vector<Piece>& pieces, Index kinds) {
  std::vector<Question> all;
  for (Index kind = 0; kind < kinds; ++kind) {
    for (Index row = 0; row < kSide; ++row) {
      const auto row_of = [&](const Piece& piece) { return piece.row(kind); };
      if (std::ranges::count(pieces, row, row_of) != 1) continue;
      const auto piece = std::ranges::find(pieces, row, row_of);
      all.push_back({kLetters[kind * kSide + row], piece->value, piece - pieces.begin()});
    }
  }
  return all;
}

// Line of pieces that stand on a board of 5 x 5 squares, then questions about them:
//
//     - A piece is one character, a Braille pattern for its square (x, y) and its value, 0 to 3.
//     - A question is one letter. It names a row of the board in which exactly one piece stands.
//     - The digit after a question is the answer: the value of that piece. It adds no nats.
//     - Row g of kind n has the squares with x + n y = g modulo 5, of the last kind those with
//       y = g. So each kind sorts the 25 squares into 5 rows of 5 in its own way.
//     - A line with fewer rows of one piece than questions ends in dots.
//
// All but the answers and the dots is random. No question is asked twice, because its earlier
// answer could be copied. The task is associative recall (Arora et al. 2023, "Zoology",
// arXiv:2312.04927) with one key for each kind of question.
Story write_lookup(Index kinds, const Chooser& chooser) {
  StoryWriter writer(chooser);
  std::vector<Index> squares(kSide * kSide);
  std::iota(squares.begin(), squares.end(), 0);
  std::vector<Piece> pieces;
  for (Index i = 0; i < kPieces; ++i) {
    const Index square = writer.draw(squares);
    pieces.push_back({square, writer.choose(std::ssize(kValues))});
    writer.write(pieces.back().character());
    writer.tell(kValues[pieces.back().value]);
  }
  std::vector<Question> left = questions(pieces, kinds);
  for (Index i = 0; i < kQuestions && !left.empty(); ++i) {
    const Question question = writer.draw(left);
    writer.write({&question.letter, 1});
    writer.write_answer(kValues[question.answer], "", question.piece, kValues);
  }
  writer.write(std::string(kLine - 1 - writer.position(), '.') + "\n");
  return std::move(writer).finish();
}

SettingList lookup_settings() {
  return {{"kinds",
           "number of directions in which lines run over the board: columns, then diagonals, rows "
           "last; each question asks for the piece on one line",
           WholeRange{1, kMostKinds}, 2}};
}

StoryGrammar lookup_writer(const Given& given) {
  return [kinds = given.whole("kinds")](const Chooser& chooser) {
    return write_lookup(kinds, chooser);
  };
}

// A head of width 2 can serve one kind of row and no more. A lookup does not depend on positions.
nlohmann::json lookup_defaults() {
  return {{"layers", 1},         {"dim", 64},        {"heads", 4},   {"head-dim", 2},
          {"ffn-dim", 64},       {"context", kLine}, {"batch", 32},  {"steps", 3000},
          {"positions", "none"}, {"lr", 2e-3},       {"warmup", 20}, {"beta2", 0.95},
          {"eval-every", 500}};
}

// A verdict takes about a minute. mla8+0 has the cache bytes of gqa2, mla4+0 those of mqa.
constexpr std::string_view kLookupAttentions = "mha,gqa2,mqa,mla8+0,mla4+0";

}  // namespace

extern const BuiltInCorpus kLookup = {
    .name = "lookup",
    .about =
        "a line is five pieces, each of a value and on a square of a board of 5 x 5, then letters "
        "of rows, each of which asks for the value of the one piece in that row",
    .settings = lookup_settings,
    .writer = lookup_writer,
    .defaults = lookup_defaults,
    .attentions = kLookupAttentions,
    .only_answers = true,
    .story_length = [](const Given&) { return kLine; }};

}  // namespace headcount
