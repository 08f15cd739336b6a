// label: unsanitized
#include "data/tales.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "data/corpus.h"
#include "data/every_story.h"

namespace headcount {
namespace {

/// Reads a story as a person would, knowing nothing of the generator: follows who is where and who
/// has what, and answers the questions.
class Reader {
 public:
  /// The answers, in the order of the questions.
  std::vector<std::string> read(const std::string& story) {
    std::istringstream sentences(story);
    std::vector<std::string> words;
    std::string word;
    std::vector<std::string> answers;
    while (sentences >> word) {
      const char end = word.back();
      if (end == '.' || end == '?') word.pop_back();
      words.push_back(word);
      if (end == '?') answers.push_back(answer(words));
      // What follows a question is its answer: not read, so that it cannot be copied.
      if (end == '.' && !asked_) understand(words);
      if (end == '.') asked_ = false;
      if (end == '?') asked_ = true;
      if (end == '.' || end == '?') words.clear();
    }
    return answers;
  }

  bool plausible() const { return plausible_; }

 private:
  void understand(const std::vector<std::string>& words) {
    const std::string& person = words[0];
    const std::string& verb = words[1];
    const std::string& last = words.back();
    if (verb == "is" || verb == "goes" || verb == "walks" || verb == "runs") {
      if (verb != "is") plausible_ = plausible_ && place_[person] != last;
      place_[person] = last;
      for (const auto& [thing, holder] : holder_) {
        if (holder == person) place_[thing] = last;
      }
    } else if (verb == "has" || verb == "picks") {
      if (verb == "picks") {
        plausible_ = plausible_ && !holder_.contains(last) && place_[last] == place_[person];
      }
      holder_[last] = person;
      place_[last] = place_[person];
    } else if (verb == "puts") {
      plausible_ = plausible_ && holder_[last] == person;
      holder_.erase(last);
    } else {  // Ida gives the map to Tom
      const std::string& thing = words[3];
      plausible_ = plausible_ && verb == "gives" && holder_[thing] == person &&
                   place_[last] == place_[person] && last != person;
      holder_[thing] = last;
    }
  }

  std::string answer(const std::vector<std::string>& words) const {
    return words[0] == "Who" ? holder_.at(words.back()) : place_.at(words.back());
  }

  std::map<std::string, std::string> place_;   // of people and things
  std::map<std::string, std::string> holder_;  // of things
  bool asked_ = false;
  bool plausible_ = true;
};

/// The names that answer the questions.
std::vector<std::string> answers_of(const Story& story) {
  std::vector<std::string> names;
  std::istringstream lines(story.text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find('?') == std::string::npos) continue;
    const std::size_t space = line.rfind(' ');
    names.push_back(line.substr(space + 1, line.size() - space - 2));
  }
  return names;
}

/// The marked runs of characters.
std::vector<std::string> marked(const Story& story) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < story.text.size(); ++i) {
    if (!story.distances[i]) continue;
    if (i == 0 || !story.distances[i - 1]) runs.emplace_back();
    runs.back() += story.text[i];
  }
  return runs;
}

TalesOptions any_options() {
  TalesOptions options;
  options.people = *rc::gen::inRange(1, 13);
  options.things = *rc::gen::inRange(1, 17);
  options.places = *rc::gen::inRange(1, 13);
  options.events = *rc::gen::inRange(0, 30);
  options.questions = *rc::gen::inRange<Index>(1, options.people + options.things + 1);
  return options;
}

TEST(Tales, AnswersFollowFromTheStory) {
  EXPECT_TRUE(rc::check([] {
    const TalesOptions options = any_options();
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const Story story = tell_tale(options, random_chooser({seed, 1, 2}));
    Reader reader;
    const auto answers = reader.read(story.text);
    RC_ASSERT(std::ssize(answers) == options.questions);
    RC_ASSERT(answers == answers_of(story));
    RC_ASSERT(reader.plausible());
  }));
}

// Where in the story before `end` the name of the place stands in which `person` was last.
std::size_t told_place(const std::string& story, const std::string& person, std::size_t end) {
  std::size_t last = 0;
  for (const char* verb : {" is in the ", " goes to the ", " walks to the ", " runs to the "}) {
    const std::string begin = person + verb;
    const std::size_t at = story.rfind(begin, end);
    if (at != std::string::npos) last = std::max(last, at + begin.size());
  }
  return last;
}

// Where the name of who has `thing` was told last; of one that lies somewhere, that of the place.
std::size_t told_holder(const std::string& story, const std::string& thing, bool& lies) {
  const auto last = [&](const std::string& words) {
    const std::size_t at = story.rfind(words);
    return at == std::string::npos ? 0 : at;
  };
  const auto subject = [&](std::size_t verb) { return story.find_last_of(" \n", verb - 1) + 1; };
  const std::string gives = " gives the " + thing + " to ";
  const std::size_t given = last(gives), dropped = last(" puts down the " + thing + ".");
  const std::size_t taken =
      std::max(last(" has the " + thing + "."), last(" picks up the " + thing + "."));
  lies = dropped > std::max(given, taken);
  if (!lies) return given > taken ? given + gives.size() : subject(taken);
  const std::size_t person = subject(dropped);
  return told_place(story, story.substr(person, dropped - person), dropped);
}

TEST(Tales, MarkHowFarBackAnAnswerWasToldLast) {
  int lying = 0;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const Story story = tell_tale({.events = 6, .questions = 5}, random_chooser({1, 2, i}));
    const std::string& text = story.text;
    const std::string told = text.substr(0, text.rfind('\n', text.find('?')) + 1);
    for (std::size_t mark = text.find('?'); mark != std::string::npos;
         mark = text.find('?', mark + 1)) {
      const std::string question = text.substr(text.rfind('\n', mark) + 1, mark);
      const std::string name = question.substr(0, question.find('?'));
      const std::string about = name.substr(name.rfind(' ') + 1);
      std::size_t expected = 0;
      bool lies = false;
      if (!question.starts_with("Where is the ") && question.starts_with("Where")) {
        expected = told_place(told, about, told.size());
      } else {
        expected = told_holder(told, about, lies);
        const std::string holder =
            told.substr(expected, told.find_first_of(" .", expected) - expected);
        if (question.starts_with("Where") && !lies)
          expected = told_place(told, holder, told.size());
      }
      lying += lies;
      const auto answer =
          std::find_if(story.distances.begin() + static_cast<std::ptrdiff_t>(mark),
                       story.distances.end(), [](std::int32_t back) { return back > 0; });
      const auto at = static_cast<std::size_t>(answer - story.distances.begin());
      EXPECT_EQ(at - static_cast<std::size_t>(*answer), expected) << text << question;
      EXPECT_EQ(text[expected], text[at]);
    }
  }
  EXPECT_GT(lying, 50);
}

// After "l" only "library" is left, after "c" there are "cave" and "cellar".
TEST(Tales, MarkTheLettersThatTellNamesApart) {
  for (std::uint32_t i = 0; i < 500; ++i) {
    const Story story = tell_tale({}, random_chooser({1, 2, i}));
    std::vector<std::string> deciding;
    double guessed = 0;
    for (const std::string& name : answers_of(story)) {
      const bool place = std::islower(static_cast<unsigned char>(name[0])) != 0;
      const bool shared = name[0] == 'c' || name[0] == 'm';  // cave and cellar, mill and meadow
      deciding.push_back(name.substr(0, place && shared ? 2 : 1));
      guessed += place ? 2 / 12.0 + (shared ? 0.5 : 0) : 1 / 12.0;
    }
    EXPECT_EQ(marked(story), deciding) << story.text;
    EXPECT_NEAR(story.baselines.guesser, guessed, 1e-12) << story.text;
  }
}

// Names have different first letters, so that an answer is one letter.
TEST(Tales, BaselinesAreThoseOfTheNamesThatTheStoryAndItsAnswersHave) {
  const TalesNames names = {.people = {"Ann", "Ben", "Ida"},
                            .things = {"cup", "map"},
                            .places = {"barn", "mill", "tower"}};
  const auto share = [](const std::vector<std::string_view>& all, const std::string& answer,
                        const auto& count) {
    std::map<Index, std::set<std::string_view>> by_count;
    for (const std::string_view name : all) by_count[count(name)].insert(name);
    const auto& [most, alike] = *by_count.rbegin();
    if (most == 0) return 1.0 / static_cast<double>(all.size());
    return alike.contains(answer) ? 1.0 / static_cast<double>(alike.size()) : 0.0;
  };
  for (std::uint32_t i = 0; i < 200; ++i) {
    const Story story = tell_tale({.people = 3, .things = 2, .events = 3, .questions = 4},
                                  random_chooser({1, 2, i}), names);
    const std::string told = story.text.substr(0, story.text.rfind('\n', story.text.find('?')) + 1);
    Baselines right;
    std::vector<std::string> answered;
    for (const std::string& answer : answers_of(story)) {
      const auto& all =
          std::islower(static_cast<unsigned char>(answer[0])) ? names.places : names.people;
      right +=
          {.guesser = 1 / 3.0,
           .copier =
               share(all, answer,
                     [&](std::string_view name) { return std::ranges::count(answered, name); }),
           .commonest = share(all, answer, [&](std::string_view name) {
             Index count = 0;
             for (auto at = told.find(name); at != std::string::npos; at = told.find(name, at + 1))
               ++count;
             return count;
           })};
      answered.push_back(answer);
    }
    EXPECT_NEAR(story.baselines.guesser, right.guesser, 1e-12) << story.text;
    EXPECT_NEAR(story.baselines.copier, right.copier, 1e-12) << story.text;
    EXPECT_NEAR(story.baselines.commonest, right.commonest, 1e-12) << story.text;
  }
}

TEST(Tales, AskNothingTwice) {
  for (std::uint32_t i = 0; i < 200; ++i) {
    const Story story = tell_tale({.questions = 5}, random_chooser({1, 2, i}));
    std::set<std::string> asked;
    std::istringstream lines(story.text);
    for (std::string line; std::getline(lines, line);) {
      if (const auto mark = line.find('?'); mark != std::string::npos) {
        EXPECT_TRUE(asked.insert(line.substr(0, mark)).second) << story.text;
      }
    }
    EXPECT_EQ(asked.size(), 5u);
  }
}

TEST(Tales, MarkTheFullStopWhereALongerNameCouldGoOn) {
  const TalesNames names = {.people = {"Ann", "Anna"}, .things = {"map"}, .places = {"mill"}};
  std::set<std::string> seen;
  for (std::uint32_t i = 0; i < 50; ++i) {
    const TalesOptions options = {.people = 1, .things = 1, .places = 1, .events = 0};
    const Story story = tell_tale(options, random_chooser({1, 2, i}), names);
    for (const std::string& run : marked(story)) seen.insert(run);
  }
  EXPECT_EQ(seen, (std::set<std::string>{".", "a"}));
}

TEST(Tales, KeepToTheNumbersAskedFor) {
  EXPECT_TRUE(rc::check([] {
    const TalesOptions options = any_options();
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const std::string text = tell_tale(options, random_chooser({seed, 1, 2})).text;
    const auto named = [&](const std::vector<std::string_view>& names) {
      return std::count_if(names.begin(), names.end(), [&](std::string_view name) {
        return text.find(std::string(1, ' ').append(name)) != std::string::npos ||
               text.starts_with(name);
      });
    };
    RC_ASSERT(named(tales_names().people) == options.people);
    RC_ASSERT(named(tales_names().things) == options.things);
    RC_ASSERT(named(tales_names().places) <= options.places);
    RC_ASSERT(std::count(text.begin(), text.end(), '?') == options.questions);
    const auto opening_and_answers = options.people + options.things + options.questions;
    RC_ASSERT(std::count(text.begin(), text.end(), '.') == opening_and_answers + options.events);
    RC_ASSERT(text.find("\n\n") == text.size() - 2);  // its only empty line is the last
  }));
}

TEST(Tales, NatsAreExactOverAllStories) {
  const TalesNames names = {.people = {"Ann", "Anna", "Tom"},
                            .things = {"map", "cup"},
                            .places = {"mill", "cave", "barn"}};
  const TalesOptions tiny[] = {
      {.people = 1, .things = 1, .places = 1, .events = 3, .questions = 2},
      {.people = 2, .things = 1, .places = 1, .events = 3, .questions = 1},
      {.people = 1, .things = 1, .places = 3, .events = 3, .questions = 1},
      {.people = 2, .things = 1, .places = 2, .events = 2, .questions = 2},
      {.people = 2, .things = 2, .places = 2, .events = 1, .questions = 1},
      {.people = 3, .things = 2, .places = 3, .events = 0, .questions = 1},
  };
  for (const TalesOptions& options : tiny) {
    const auto all =
        every_story([&](const Chooser& chooser) { return tell_tale(options, chooser, names); });
    SCOPED_TRACE(std::to_string(all.size()) + " stories such as:\n" + all.front().story.text);
    EXPECT_GT(all.size(), 30u);
    EXPECT_GT(expect_exact_nats(all), 3);
  }
}

// All texts as they are by default, in which every letter counts.
TEST(CorpusDefaults, AreTheSameTextEverywhere) {
  EXPECT_EQ(load_corpus("tales").sha256,
            "646380304c9f5638b56f9d60e2135064f87798261dd688b540bc7197867224bc");
  EXPECT_EQ(load_corpus("lookup").sha256,
            "162f727440bfdcac1dc5e77a90889252b238a7d735b7a468ef79d3975e1c3d08");
  EXPECT_EQ(load_corpus("mqar").sha256,
            "014d4ce3121ce11d5b51669d500bd37e9b9dd82a09d269f7ae7f2d2a11e5ec47");
}

}  // namespace
}  // namespace headcount
