// programs: headcount_own
// A built-in corpus that a user of the library adds, in one file. It is linked into a program of
// its own; nothing else names it.
//
// A line shows different letters, asks for one of them, and answers with the letter after it:
// "hcbe:be".
#include <string>
#include <utility>
#include <vector>

#include "data/built_in.h"

namespace headcount {
namespace {

constexpr std::string_view kAlphabet = "abcdefgh";

Story write_own(Index letters, const Chooser& chooser) {
  StoryWriter writer(chooser);
  std::vector<char> left(kAlphabet.begin(), kAlphabet.end());
  std::string shown;
  for (Index i = 0; i < letters; ++i) shown += writer.draw(left);
  writer.write(shown);
  const Index asked = writer.choose(letters - 1);
  writer.write(std::string{':', shown[asked]});
  const double guess = 1.0 / static_cast<double>(kAlphabet.size() - 1);
  writer.write_answer(
      shown.substr(asked + 1, 1),
      {.guesser = guess, .copier = guess, .commonest = 1.0 / static_cast<double>(letters)},
      asked + 1);
  writer.write("\n");
  return std::move(writer).finish();
}

const BuiltInCorpus kOwn = {
    .name = "letters",
    .settings =
        [] {
          return SettingList{{"letters", "different letters that a line shows",
                              WholeRange{2, std::ssize(kAlphabet)}, 4}};
        },
    .writer = [](const Given& given) -> StoryGrammar {
      return [letters = given.whole("letters")](const Chooser& chooser) {
        return write_own(letters, chooser);
      };
    },
    .defaults =
        [] {
          return nlohmann::json{{"context", 16}, {"dim", 16}, {"layers", 1}};
        },
    .characters = 20'000};

const bool registered = [] {
  register_corpus(kOwn);
  return true;
}();

}  // namespace
}  // namespace headcount
