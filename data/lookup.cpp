#include "data/lookup.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/utf8.h"
#include "data/built_in.h"

namespace headcount {

namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcd";  // one for each row
static_assert(kLetters.size() == kMostLookupKinds * kLookupSide);

struct Piece {
  Index square = 0, value = 0;

  /// Row of `kind` in which the piece stands.
  Index row(Index kind) const {
    const Index x = square % kLookupSide, y = square / kLookupSide;
    return kind == kMostLookupKinds - 1 ? y : (x + kind * y) % kLookupSide;
  }
  std::string character() const {
    constexpr char32_t kBraille = 0x2800;  // 256 characters that look like dots on dice
    return encode_utf8(std::u32string(1, kBraille + square + kLookupSide * kLookupSide * value));
  }
};

char digit(Index value) { return static_cast<char>('0' + value); }

struct Question {
  char letter;
  Index answer, piece;
};

/// Questions for all rows in which one piece stands alone.
std::vector<Question> questions(const std::vector<Piece>& pieces, Index kinds) {
  std::vector<Question> all;
  for (Index kind = 0; kind < kinds; ++kind) {
    for (Index row = 0; row < kLookupSide; ++row) {
      const auto row_of = [&](const Piece& piece) { return piece.row(kind); };
      if (std::ranges::count(pieces, row, row_of) != 1) continue;
      const auto piece = std::ranges::find(pieces, row, row_of);
      all.push_back({kLetters[kind * kLookupSide + row], piece->value, piece - pieces.begin()});
    }
  }
  return all;
}

}  // namespace

Story write_lookup(const LookupOptions& options, const Chooser& chooser) {
  StoryWriter writer(chooser);
  std::vector<Index> squares(kLookupSide * kLookupSide);
  std::iota(squares.begin(), squares.end(), 0);
  std::vector<Piece> pieces;
  for (Index i = 0; i < kLookupPieces; ++i) {
    const Index square = writer.draw(squares);
    pieces.push_back({square, writer.choose(kLookupValues)});
    writer.write(pieces.back().character());
  }
  std::vector<Question> left = questions(pieces, options.kinds);
  std::map<char, Index> on_board, answered;
  for (const Piece& piece : pieces) ++on_board[digit(piece.value)];
  for (Index i = 0; i < kLookupQuestions && !left.empty(); ++i) {
    const Question question = writer.draw(left);
    const char answer = digit(question.answer);
    constexpr double kGuess = 1.0 / kLookupValues;
    writer.write({&question.letter, 1});
    writer.write_answer({&answer, 1},
                        {.guesser = kGuess,
                         .copier = hit_by_commonest(answer, answered, kGuess),
                         .commonest = hit_by_commonest(answer, on_board, kGuess)},
                        question.piece);
    ++answered[answer];
  }
  writer.write(std::string(kLookupLine - 1 - writer.position(), '.') + "\n");
  return std::move(writer).finish();
}

namespace {

SettingList lookup_settings() {
  return {{"kinds",
           "number of directions in which lines run over the board: columns, then diagonals, rows "
           "last; each question asks for the piece on one line",
           WholeRange{1, kMostLookupKinds}, LookupOptions().kinds}};
}

StoryGrammar lookup_writer(const Given& given) {
  return [options = LookupOptions{given.whole("kinds")}](const Chooser& chooser) {
    return write_lookup(options, chooser);
  };
}

// A head of width 2 can serve one kind of row and no more. A lookup does not depend on positions.
// With unscaled scores, attention departs sooner from the mean of all tokens.
nlohmann::json lookup_defaults() {
  return {{"layers", 1},
          {"dim", 64},
          {"heads", 4},
          {"head-dim", 2},
          {"ffn-dim", 64},
          {"context", kLookupLine},
          {"batch", 32},
          {"steps", 3000},
          {"positions", "none"},
          {"lr", 2e-3},
          {"warmup", 20},
          {"beta2", 0.95},
          {"score-scale", "none"},
          {"eval-every", 500}};
}

// A verdict takes about a minute. mla8+0 has the cache bytes of gqa2, mla4+0 those of mqa.
constexpr std::string_view kLookupAttentions = "mha,gqa2,mqa,mla8+0,mla4+0";

}  // namespace

extern const BuiltInCorpus kLookup = {.name = "lookup",
                                      .settings = lookup_settings,
                                      .writer = lookup_writer,
                                      .defaults = lookup_defaults,
                                      .attentions = kLookupAttentions,
                                      .only_answers = true,
                                      .story_length = [](const Given&) { return kLookupLine; }};

}  // namespace headcount
