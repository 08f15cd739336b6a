#include <unistd.h>

#include <iostream>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "train/cli/commands.h"

namespace headcount {

namespace {

SettingList data_settings() {
  SettingList all = settings_in(
      Scope::data,
      {{"tokens", "number of characters to print, rounded up to whole stories; 0: three stories",
        WholeRange{0}, 0},
       {"seed", "random seed of the stories; 1 is the text that models are trained on", Naturals{},
        1U}});
  add_settings(all, corpus_settings());
  return all;
}

const BuiltInCorpus& corpus_named(const std::string& name) {
  if (const BuiltInCorpus* const corpus = find_built_in(name)) return *corpus;
  throw UsageError("{}; name one of {}",
                   name.empty() ? "data needs the name of a built-in text"
                                : headcount::quoted(name) + " is no built-in text",
                   joined(built_in_corpora(), &BuiltInCorpus::name));
}

int data_command(const Call& call) {
  const BuiltInCorpus& corpus = corpus_named(call.line.get("data"));
  const Given given = flags_given(call);
  const Given own = given.of(corpus_settings(), corpus.name);
  refuse_unread(call.line, corpus_settings(), {own.values_of(corpus.settings())},
                [&](const Setting&) { return std::string(corpus.name); });
  const StoryGrammar write = corpus.writer(own);
  constexpr std::uint64_t kFew = 3;  // stories
  const Index wanted = given.has("tokens") ? given.whole("tokens") : 0;
  RandomKey key{.seed = given.get("seed").get<std::uint64_t>(),
                .stream = random_stream("data/" + std::string(corpus.name)),
                .step = 0};
  if (!corpus.about.empty()) tell(std::string(corpus.name) + ": " + std::string(corpus.about));
  Index written = 0;
  // A text without line breaks has none in a file, so that models read what they are trained on.
  bool on_line = false;
  for (; wanted > 0 ? written < wanted : key.step < kFew; ++key.step) {
    const Story story = write(random_chooser(key));
    written += std::ssize(story.distances);
    on_line = !story.text.ends_with('\n');
    std::cout << story.text << (wanted == 0 && on_line ? "\n" : "");
  }
  if (wanted > 0 && on_line && isatty(STDOUT_FILENO) == 1) std::cout << '\n';
  std::cout.flush();
  if (written > wanted && wanted > 0)
    tell(std::to_string(written) + " characters, in whole stories: `tokens` " +
         std::to_string(wanted) + " ends within one");
  return 0;
}

}  // namespace

const Command kDataCommand = {
    {"data", "Print a built-in text: three examples of it, or as much as --tokens says.",
     "  headcount data tales\n"
     "  headcount data recall --pairs 2 --seed 7\n"
     "  headcount data tales --tokens 1M > tales.txt\n"},
    data_settings,
    {{"data", "built-in text to print; --data may be left out before its name", true, false, true}},
    data_command};

}  // namespace headcount
