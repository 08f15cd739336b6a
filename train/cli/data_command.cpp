#include <iostream>
#include <nlohmann/json.hpp>

#include "autograd/base/text.h"
#include "data/built_in.h"
#include "train/cli/commands.h"

namespace headcount {

const CommandHelp kDataHelp = {
    "data", "Print a built-in text: a few stories of it, or as much as --tokens says.",
    "  headcount data tales\n"
    "  headcount data recall --pairs 2 --seed 7\n"
    "  headcount data tales --tokens 1M > tales.txt\n"};

namespace {

const SettingList& data_settings() {
  static const SettingList list = [] {
    SettingList all = settings_in(
        Scope::data,
        {{"tokens", "number of characters to print, rounded up to whole stories; 0: a few lines",
          tokens(0), 0},
         {"seed", "random seed of the stories; 1 is the text that models are trained on",
          Naturals{}, 1U}});
    add_settings(all, corpus_settings());
    return all;
  }();
  return list;
}

const BuiltInCorpus& corpus_named(const std::string& name) {
  if (const BuiltInCorpus* const corpus = find_built_in(name)) return *corpus;
  throw UsageError(name.empty() ? "data needs the name of a built-in text"
                                : headcount::quoted(name) + " is no built-in text",
                   "; name one of ", joined(built_in_corpora(), &BuiltInCorpus::name));
}

}  // namespace

int data_command(const std::vector<std::string>& arguments, Ranks&) {
  const bool named = !arguments.empty() && !arguments.front().starts_with('-');
  const CommandLine line = parse_command_line({arguments.begin() + named, arguments.end()},
                                              kDataHelp, data_settings(), {});
  if (line.has("help")) return 0;
  const BuiltInCorpus& corpus = corpus_named(named ? arguments.front() : "");
  const Given given = flags_given(line, data_settings());
  refuse_unread(line, data_settings(), [&](const Setting& setting, const std::string&) {
    return setting.is_for(corpus.name)
               ? ""
               : "has no effect on " + std::string(corpus.name) + "; leave it out";
  });
  const StoryGrammar write = corpus.writer(given.of(corpus_settings(), corpus.name));
  constexpr Index kFew = 120;  // characters
  const Index wanted = given.has("tokens") ? given.whole("tokens") : 0;
  RandomKey key{.seed = given.get("seed").get<std::uint64_t>(),
                .stream = random_stream("data/" + std::string(corpus.name)),
                .step = 0};
  if (!corpus.about.empty()) tell(std::string(corpus.name) + ": " + std::string(corpus.about));
  for (Index written = 0; written < (wanted > 0 ? wanted : kFew); ++key.step) {
    const Story story = write(random_chooser(key));
    written += std::ssize(story.distances);
    // A line break after each story of a text without any, unless the text itself is wanted.
    std::cout << story.text << (wanted == 0 && !story.text.ends_with('\n') ? "\n" : "");
  }
  return 0;
}

}  // namespace headcount
