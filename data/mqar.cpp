#include "data/mqar.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/utf8.h"
#include "data/built_in.h"

namespace headcount {

namespace {

constexpr Index kKeys = kMqarSymbols / 2 - 1;  // numbers 1 .. kKeys; values follow them
constexpr Index kValues = kMqarSymbols / 2;

std::string character(Index number) {
  constexpr char32_t kFirst = 0x4E00;
  return number == 0 ? "." : encode_utf8(std::u32string(1, kFirst + number));
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
  if (options.length % 2 == 0 && options.length >= 4 * options.pairs) return;
  throw ShapeError("`line-length` must be even and at least 4 times `pairs`, ", 4 * options.pairs,
                   ", is ", options.length);
}

}  // namespace

Story write_mqar(const MqarOptions& options, const Chooser& chooser) {
  check(options);
  StoryWriter writer(chooser);
  const std::vector<Index> keys = draw_distinct(writer, options.pairs, 1, kKeys);
  const std::vector<Index> values = draw_distinct(writer, options.pairs, 1 + kKeys, kValues);
  const Index told = 2 * options.pairs;
  const std::vector<Index> places = draw_places(writer, options.pairs, (options.length - told) / 2);
  for (std::size_t pair = 0; pair < keys.size(); ++pair)
    writer.write(character(keys[pair]) + character(values[pair]));
  while (writer.position() < options.length) {
    const Index place = (writer.position() - told) / 2;
    const auto asked = std::ranges::find(places, place) - places.begin();
    const auto fill = [&] {
      return character(options.random_fill ? writer.choose(kMqarSymbols) : 0);
    };
    if (asked == std::ssize(places)) {
      writer.write(fill());
      writer.write(fill());
      continue;
    }
    writer.write(character(keys[asked]));
    constexpr double kGuess = 1.0 / kValues;
    writer.write_answer(
        fill(),
        {.guesser = kGuess, .copier = kGuess, .commonest = 1 / static_cast<double>(options.pairs)},
        2 * asked + 1);
  }
  return std::move(writer).finish();
}

namespace {

constexpr Named<bool> kFills[] = {{"random", true}, {"dots", false}};

SettingList mqar_settings() {
  const MqarOptions standard;
  return {{"pairs", "keys with values at the beginning of a line, and questions",
           WholeRange{1, kKeys}, standard.pairs},
          {"line-length", "characters per line, of which `context` is a multiple",
           WholeRange{4, 1 << 16}, standard.length},
          {"fill", "characters between questions", kFills, "random"}};
}

MqarOptions read_options(const Given& given) {
  return {given.whole("pairs"), given.whole("line-length"), given.chosen("fill", kFills)};
}

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

// Sizes of figure 2 of the paper of Zoology (see mqar.h), which has one head and no MLP.
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

}  // namespace

extern const BuiltInCorpus kMqar = {
    .name = "mqar",
    .settings = mqar_settings,
    .writer = mqar_writer,
    .defaults = mqar_defaults,
    .attentions = "mha,mla24+8,mla8+8",
    .only_answers = true,
    .hidden_answers = true,
    .characters = 6'400'000,  // 100,000 lines of 64, as in the paper
    .story_length = mqar_length};

}  // namespace headcount
