#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "data/built_in.h"

namespace headcount {

namespace {

constexpr Index kPieces = 5, kQuestions = 5;
// Characters per line: pieces, questions with their answers, and a newline.
constexpr Index kLine = kPieces + 2 * kQuestions + 1;
constexpr std::array<std::string_view, 4> kValues = {"0", "1", "2", "3"};
// A side is a prime, so that the squares form lines in side + 1 directions, of which any two cross
// in one square.
constexpr Named<Index> kSides[] = {{"5", 5}, {"7", 7}, {"11", 11}};

// Letter of a question: Latin letters, then Cyrillic ones.
char32_t letter(Index number) {
  constexpr std::u32string_view kLatin = U"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr char32_t kCyrillic = 0x400;
  if (number < std::ssize(kLatin)) return kLatin[number];
  return kCyrillic + static_cast<char32_t>(number - std::ssize(kLatin));
}

struct Board {
  Index side = 5;
  Index directions = 6;  // of lines; 0: questions name squares

  Index squares() const { return side * side; }
  // Number of the question in direction `direction` that a piece on this square answers.
  Index question(Index direction, Index square) const {
    if (directions == 0) return square;
    const Index x = square % side, y = square / side;
    return direction * side + (direction == side ? y : (x + direction * y) % side);
  }
  std::string piece(Index square, Index value) const {
    constexpr char32_t kBraille = 0x2800;  // 256 characters that look like dots on dice
    constexpr char32_t kChinese = 0x4E00;
    const bool few = squares() * std::ssize(kValues) <= 256;
    const auto number = static_cast<char32_t>(square + squares() * value);
    return encode_utf8(std::u32string(1, (few ? kBraille : kChinese) + number));
  }
};

struct Piece {
  Index square = 0, value = 0;
};

struct Question {
  Index number, answer, piece;
};

// Questions that exactly one piece answers.
std::vector<Question> questions(const Board& board, const std::vector<Piece>& pieces) {
  std::vector<Question> all;
  for (Index direction = 0; direction < std::max<Index>(1, board.directions); ++direction) {
    std::vector<Question> asked;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      asked.push_back(
          {board.question(direction, pieces[i].square), pieces[i].value, static_cast<Index>(i)});
    const std::vector<Question> answered = asked;
    std::erase_if(asked, [&](const Question& question) {
      return std::ranges::count(answered, question.number, &Question::number) > 1;
    });
    std::ranges::sort(asked, {}, &Question::number);
    all.insert(all.end(), asked.begin(), asked.end());
  }
  return all;
}

// Line of pieces that stand on a board of side x side squares, then questions about them:
//
//     - A piece is one character for its square (x, y) and its value, 0 to 3. On the boards of 5
//       and 7 it is a Braille pattern.
//     - A question is one letter. It names a line of the board on which exactly one piece stands,
//       or with `directions` 0 the square of a piece.
//     - The digit after a question is the answer: the value of that piece. It adds no nats.
//     - Line g of direction n has the squares with x + n y = g modulo the side, of the last
//       direction those with y = g. So each direction sorts the squares into lines in its own way.
//     - A text line with fewer such lines than questions ends in dots.
//
// All but the answers and the dots is random. No question is asked twice, because its earlier
// answer could be copied. The task is associative recall (Arora et al. 2023, "Zoology",
// arXiv:2312.04927) with one key for each direction.
Story write_lookup(const Board& board, const Chooser& chooser) {
  StoryWriter writer(chooser);
  std::vector<Index> squares(board.squares());
  std::iota(squares.begin(), squares.end(), 0);
  std::vector<Piece> pieces;
  for (Index i = 0; i < kPieces; ++i) {
    const Index square = writer.draw(squares);
    pieces.push_back({square, writer.choose(std::ssize(kValues))});
    writer.write(board.piece(square, pieces.back().value));
    writer.tell(kValues[pieces.back().value]);
  }
  std::vector<Question> left = questions(board, pieces);
  for (Index i = 0; i < kQuestions && !left.empty(); ++i) {
    const Question question = writer.draw(left);
    writer.write(encode_utf8(std::u32string(1, letter(question.number))));
    writer.write_answer(kValues[question.answer], "", question.piece, kValues);
  }
  writer.write(std::string(kLine - 1 - writer.position(), '.') + "\n");
  return std::move(writer).finish();
}

SettingList lookup_settings() {
  return {{"directions",
           "directions in which lines run over the board: columns, then diagonals, rows last; each "
           "question names a line and asks for the one piece on it. 0: it names the piece's square",
           WholeRange{0, 12}, Board().directions, Traits{.formerly = "kinds"}},
          {"side", "squares along a side of the board", kSides, "5"}};
}

Board read_board(const Given& given) {
  const Board board{given.chosen("side", kSides), given.whole("directions")};
  if (board.directions > board.side + 1) {
    throw ShapeError("`directions` must be at most {}, `side` plus 1, is {}", board.side + 1,
                     board.directions);
  }
  return board;
}

StoryGrammar lookup_writer(const Given& given) {
  return
      [board = read_board(given)](const Chooser& chooser) { return write_lookup(board, chooser); };
}

Index lookup_length(const Given& given) {
  read_board(given);
  return kLine;
}

Index direction_of(char32_t character, const Given& given) {
  const Board board = read_board(given);
  for (Index number = 0; number < board.directions * board.side; ++number)
    if (letter(number) == character) return number / board.side;
  return -1;
}

// A lookup does not depend on positions. Eight query heads on four KV heads of 8 learn six
// directions in 775 to 1225 steps (eight seeds), so that one that takes more than a quarter longer
// shows within 1600.
nlohmann::json lookup_defaults() {
  return {{"layers", 1},          {"dim", 64},        {"heads", 8},
          {"head-dim", 8},        {"ffn-dim", 64},    {"context", kLine},
          {"batch", 32},          {"steps", 1600},    {"positions", "none"},
          {"lr", 1e-3},           {"warmup", 20},     {"beta2", 0.95},
          {"decay", "constant"},  {"eval-every", 25}, {"eval-characters", 8192},
          {"stop-at-answers", 99}};
}

// Equal bytes of cache, on four KV heads and on one.
constexpr std::string_view kLookupAttentions = "gqa4x8,mqax32,gqa4x8:qk-norm=on,mqax32:qk-norm=on";

}  // namespace

extern const BuiltInCorpus kLookup = {
    .name = "lookup",
    .about =
        "a line of text shows five pieces, each with a value from 0 to 3, on squares of a board of "
        "5 x 5; a Braille character is a square and a value. Then letters ask: each names a line "
        "of "
        "the board, in one of up to six directions, on which exactly one piece stands; lines leave "
        "one edge and return at the opposite one. The answer is the value of that piece; only "
        "answers count",
    .settings = lookup_settings,
    .writer = lookup_writer,
    .defaults = lookup_defaults,
    .attentions = kLookupAttentions,
    .only_answers = true,
    .story_length = lookup_length,
    .direction = direction_of};

}  // namespace headcount
