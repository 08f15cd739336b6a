#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "data/built_in.h"

namespace headcount {

namespace {

// Difficulty of the built-in corpora `mqar` and `recall`, which differ in sizes only.
struct MqarOptions {
  Index pairs = 4;          // keys with their values, and questions
  Index length = 64;        // characters per line, even, at least 4 per pair
  bool random_fill = true;  // characters between questions are random; otherwise dots
  Index symbols = 8192;     // different characters: a dot, then keys, then values; even
};

constexpr Index kMostSymbols = 16384;

constexpr Index kRecallSymbols = 52;  // a dot, the keys A to Y and the values a to z

// Letters that most fonts have, for up to 512 symbols with the dot: the first 255 are Latin, the
// others Cyrillic. Half-open ranges, in ascending order.
constexpr std::pair<char32_t, char32_t> kLetters[] = {
    {U'A', U'Z' + 1}, {U'a', U'z' + 1}, {0xC0, 0xD7},   {0xD8, 0xF7},
    {0xF8, 0x180},    {0x1CD, 0x1DA},   {0x400, 0x482}, {0x48A, 0x508}};
constexpr Index kMostLetters = 512;

// Character of a number below `symbols`: a dot, then letters, of few symbols large ones for keys
// and small ones for values. Of more symbols than there are letters for, Chinese characters.
std::string character(Index number, Index symbols) {
  if (number == 0) return ".";
  if (symbols <= kRecallSymbols) {
    const Index half = symbols / 2;
    return {static_cast<char>(number < half ? 'A' + number - 1 : 'a' + number - half)};
  }
  constexpr char32_t kChinese = 0x4E00;
  if (symbols > kMostLetters)
    return encode_utf8(std::u32string(1, kChinese + static_cast<char32_t>(number)));
  auto left = static_cast<char32_t>(number - 1);
  const auto* range = kLetters;
  for (; left >= range->second - range->first; ++range) left -= range->second - range->first;
  return encode_utf8(std::u32string(1, range->first + left));
}

// `count` different numbers from `first` to `first` + `all` - 1.
std::vector<Index> draw_distinct(StoryWriter& writer, Index count, Index first, Index all) {
  std::vector<Index> drawn, ascending;
  for (Index i = 0; i < count; ++i) {
    auto number = first + writer.choose(all - i);
    auto after = ascending.begin();
    for (; after != ascending.end() && number >= *after; ++after) ++number;
    ascending.insert(after, number);
    drawn.push_back(number);
  }
  return drawn;
}

// Different places 0 .. `places` - 1, one for each of `count` questions.
std::vector<Index> draw_places(StoryWriter& writer, Index count, Index places) {
  constexpr double kPower = 0.01 - 1;
  std::vector<double> weights;
  for (Index place = 1; place <= places; ++place)
    weights.push_back(std::pow(static_cast<double>(place), kPower));
  std::vector<Index> drawn;
  for (Index i = 0; i < count; ++i) {
    drawn.push_back(writer.choose_by_weight(weights));
    weights[drawn.back()] = 0;
  }
  return drawn;
}

void check(const MqarOptions& options) {
  if (options.length % 2 != 0 || options.length < 4 * options.pairs) {
    throw ShapeError("`line-length` must be even and at least 4 times `pairs`, {}, is {}",
                     4 * options.pairs, options.length);
  }
  if (options.symbols % 2 != 0 || options.symbols < 2 * options.pairs + 2) {
    throw ShapeError("`symbols` must be even and at least 2 times `pairs` plus 2, {}, is {}",
                     2 * options.pairs + 2, options.symbols);
  }
}

// Line of the task multi-query associative recall (Arora et al. 2023, "Zoology",
// arXiv:2312.04927, section 4), as its authors' generator makes it:
//
//     - The line begins with `pairs` keys, each followed by its value. Keys differ, values differ.
//     - In the rest, each key stands once more, as a question. Questions stand at every second
//       place only; place n, counted from 1, is drawn with a weight of n^-0.99.
//     - The answer to a question is the value of that key. It is to be predicted at the question,
//       but does not stand in the text (TextMarks::hidden_answers).
//     - All other places are filled with any of the `symbols` characters, or with dots.
//
// Half of the characters are values; the other half are a dot and the keys. There is a character
// where zoology has a number; its 0 is a dot. Throws ShapeError for a line that is too short for
// its pairs, or odd, and for symbols that are odd or too few.
Story write_mqar(const MqarOptions& options, const Chooser& chooser) {
  check(options);
  StoryWriter writer(chooser);
  // Numbers of keys begin at 1; those of values follow them.
  const Index half = options.symbols / 2;
  const std::vector<Index> keys = draw_distinct(writer, options.pairs, 1, half - 1);
  const std::vector<Index> values = draw_distinct(writer, options.pairs, half, half);
  const Index told = 2 * options.pairs;
  const std::vector<Index> places = draw_places(writer, options.pairs, (options.length - told) / 2);
  const auto write = [&](Index number) { writer.write(character(number, options.symbols)); };
  for (std::size_t pair = 0; pair < keys.size(); ++pair) {
    write(keys[pair]);
    write(values[pair]);
  }
  while (writer.position() < options.length) {
    const Index place = (writer.position() - told) / 2;
    const auto asked = std::ranges::find(places, place) - places.begin();
    const auto fill = [&] { return options.random_fill ? writer.choose(options.symbols) : 0; };
    if (asked == std::ssize(places)) {
      write(fill());
      write(fill());
      continue;
    }
    write(keys[asked]);
    const double guess = 1 / static_cast<double>(half);
    writer.write_answer(
        character(fill(), options.symbols),
        {.guesser = guess, .copier = guess, .commonest = 1 / static_cast<double>(options.pairs)},
        2 * asked + 1);
  }
  return std::move(writer).finish();
}

constexpr Named<bool> kFills[] = {{"random", true}, {"dots", false}};

SettingList settings_with(const MqarOptions& standard) {
  return {{"pairs", "keys with values at the beginning of a line, and questions",
           WholeRange{1, kMostSymbols / 2 - 1}, standard.pairs},
          {"line-length", "characters per line, of which `context` is a multiple",
           WholeRange{4, 1 << 16}, of_owner(standard.length)},
          {"symbols", "different characters: half of them values, the others keys and a dot",
           WholeRange{4, kMostSymbols}, of_owner(standard.symbols)},
          {"fill", "characters between questions", kFills, "random"}};
}

MqarOptions read_options(const Given& given) {
  return {given.whole("pairs"), given.whole("line-length"), given.chosen("fill", kFills),
          given.whole("symbols")};
}

SettingList mqar_settings() { return settings_with({}); }
SettingList recall_settings() { return settings_with({.length = 16, .symbols = kRecallSymbols}); }

StoryGrammar mqar_writer(const Given& given) {
  return [options = read_options(given)](const Chooser& chooser) {
    return write_mqar(options, chooser);
  };
}

Index mqar_length(const Given& given) {
  const MqarOptions options = read_options(given);
  check(options);
  return options.length;
}

// Sizes of figure 2 of the paper of Zoology (see write_mqar), which has one head and no MLP.
nlohmann::json mqar_defaults() {
  return {{"layers", 2},
          {"dim", 64},
          {"heads", 4},
          {"ffn-dim", 64},
          {"context", MqarOptions().length},
          {"batch", 64},
          {"steps", 3000},
          {"positions", "learned"},
          {"norm", "layer"},
          {"activation", "gelu"},
          {"tie-embeddings", "on"},
          {"lr", 2e-3},
          {"eval-every", 500}};
}

// Sizes at which two cores tell heads apart in a minute. A constant rate makes the step at which a
// run has learned independent of the steps that it may take. Canon A gives a token its predecessor,
// so that a key can be found in one layer.
nlohmann::json recall_defaults() {
  nlohmann::json defaults = mqar_defaults();
  defaults.update({{"context", 32},
                   {"steps", 1500},
                   {"canon", "A"},
                   {"lr", 3e-3},
                   {"warmup", 20},
                   {"decay", "constant"},
                   {"eval-every", 10},
                   {"eval-characters", 2048},
                   {"stop-at-answers", 95}});
  return defaults;
}

constexpr std::string_view kAboutRecall =
    "a line is pairs of a key and its value, then keys again in another order, each of which asks "
    "for its value; after such a key stands a random character, so earlier answers give no hint";

}  // namespace

extern const BuiltInCorpus kMqar = {
    .name = "mqar",
    .about = kAboutRecall,
    .settings = mqar_settings,
    .writer = mqar_writer,
    .defaults = mqar_defaults,
    .attentions = "mha,mla24+8,mla8+8",
    .only_answers = true,
    .hidden_answers = true,
    .characters = 6'400'000,  // 100,000 lines of 64, as in the paper
    .story_length = mqar_length};

extern const BuiltInCorpus kRecall = {.name = "recall",
                                      .about = kAboutRecall,
                                      .settings = recall_settings,
                                      .writer = mqar_writer,
                                      .defaults = recall_defaults,
                                      .attentions = "mha,mqa",
                                      .only_answers = true,
                                      .hidden_answers = true,
                                      .characters = 1'600'000,
                                      .story_length = mqar_length};

}  // namespace headcount
