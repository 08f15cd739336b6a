#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "data/corpus.h"
#include "data/grammar.h"

namespace headcount {
namespace {

StoryGrammar mqar(Index pairs, Index length, bool random_fill, Index symbols = 8192) {
  return grammar("mqar", {{"pairs", pairs},
                          {"line-length", length},
                          {"fill", random_fill ? "random" : "dots"},
                          {"symbols", symbols}});
}

// The letters of texts of 54 to 512 symbols.
std::u32string letters() {
  std::u32string all;
  const auto add = [&](char32_t first, char32_t last) {
    for (char32_t letter = first; letter <= last; ++letter) {
      if (letter != U'\u00D7' && letter != U'\u00F7') all += letter;  // signs
    }
  };
  add(U'A', U'Z');
  add(U'a', U'z');
  add(U'\u00C0', U'\u017F');
  add(U'\u01CD', U'\u01D9');
  add(U'\u0400', U'\u0481');
  add(U'\u048A', U'\u0507');
  return all;
}

// Number that zoology has for a character of a text of so many symbols: 0 for a dot.
Index number(char32_t symbol, Index symbols) {
  if (symbol == U'.') return 0;
  if (symbols <= 52) {
    const bool is_key = symbol < U'a';
    return static_cast<Index>(symbol) - (is_key ? 'A' - 1 : 'a' - symbols / 2);
  }
  return 1 + (symbols > 512 ? static_cast<Index>(symbol) - 0x4E01
                            : static_cast<Index>(letters().find(symbol)));
}

RC_GTEST_PROP(Mqar, AsksForEachKeyOnceAndLeadsBackToItsValue, ()) {
  const auto pairs = *rc::gen::inRange<Index>(1, 20);
  const auto length = 4 * pairs + 2 * *rc::gen::inRange<Index>(0, 30);
  const auto random_fill = *rc::gen::arbitrary<bool>();
  const Index half = *rc::gen::oneOf(rc::gen::inRange<Index>(pairs + 1, 5000),
                                     rc::gen::inRange<Index>(pairs + 1, 257));
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const Story story = mqar(pairs, length, random_fill, 2 * half)(random_chooser({seed, 1, 2}));
  const std::u32string line = decode_utf8(story.text, "mqar");
  RC_ASSERT(std::ssize(line) == length);
  RC_ASSERT(std::ssize(story.distances) == length);
  const Index told = 2 * pairs;
  std::set<char32_t> keys, values, asked;
  for (Index at = 0; at < told; at += 2) {
    const Index key = number(line[at], 2 * half), value = number(line[at + 1], 2 * half);
    RC_ASSERT(key >= 1 && key < half && value >= half && value < 2 * half);
    keys.insert(line[at]);
    values.insert(line[at + 1]);
  }
  RC_ASSERT(std::ssize(keys) == pairs && std::ssize(values) == pairs);
  for (Index at = 0; at < length; ++at) {
    const Index back = story.distances[at];
    const bool asks = at + 1 < length && story.distances[at + 1] > 0;
    if (at >= told && !asks && !random_fill) RC_ASSERT(line[at] == U'.');
    if (back == 0) continue;
    RC_ASSERT(at >= told && at % 2 == 1 && at - back < told);
    RC_ASSERT(line[at - back - 1] == line[at - 1]);  // the key before the value
    asked.insert(line[at - 1]);
  }
  RC_ASSERT(asked == keys);
}

// Two places with weights 1 and 2^-0.99, of which a line with one pair takes one.
TEST(Mqar, DrawsPlacesOfQuestionsByThePowerLaw) {
  constexpr int kLines = 20'000;
  int first = 0;
  for (std::uint32_t i = 0; i < kLines; ++i)
    first += mqar(1, 6, false)(random_chooser({3, 1, i})).distances[3] > 0;
  const double expected = 1 / (1 + std::pow(2, -0.99));
  EXPECT_NEAR(first / static_cast<double>(kLines), expected, 0.01);  // 3 standard errors
}

TEST(Mqar, CountsTheNatsOfItsChoices) {
  const Story story = mqar(1, 4, false)(random_chooser({3, 1, 0}));
  EXPECT_NEAR(story.nats, std::log(4095.0 * 4096), 1e-12);
}

TEST(Mqar, RefusesLinesThatAreTooShortForTheirPairs) {
  for (const auto& [length, symbols] :
       {std::pair<Index, Index>{14, 8192}, {17, 8192}, {16, 8}, {16, 11}})
    EXPECT_THROW(mqar(4, length, true, symbols)(random_chooser({})), ShapeError) << length;
}

// Recall has large letters for keys and small ones for values.
TEST(MqarCorpus, HidesItsAnswersAndHasTheLettersOfItsSymbols) {
  EXPECT_EQ(load_corpus("recall", {.characters = 64'000}).vocabulary.symbols(),
            U".ABCDEFGHIJKLMNOPQRSTUVWXYabcdefghijklmnopqrstuvwxyz");
  const Corpus corpus = load_corpus("mqar", {.characters = 64'000});
  EXPECT_EQ(corpus.longest_story, 64);
  EXPECT_NEAR(corpus.baselines.value().guesser, 1 / 4096.0, 1e-12);
  EXPECT_NEAR(corpus.baselines.value().commonest, 0.25, 1e-12);
  const TextMarks marks = corpus.marks(corpus.train);
  EXPECT_TRUE(marks.only_answers && marks.hidden_answers);
  const auto answer = std::ranges::find_if(marks.distances, [](auto back) { return back > 0; });
  const Index at = answer - marks.distances.begin();
  EXPECT_EQ(target_at(corpus.train.tokens, at, marks), corpus.train.tokens[at - *answer]);
}

}  // namespace
}  // namespace headcount
