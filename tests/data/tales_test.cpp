// label: unsanitized
#include "data/tales.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/every_story.h"

namespace headcount {
namespace {

/// A name, and where it stands in the story.
struct Told {
  std::string name;
  std::size_t at = 0;
};

/// Reads a story as a person would, knowing nothing of the generator: follows who is where and who
/// has what, remembers where that was told, and answers the questions.
class Reader {
 public:
  explicit Reader(const std::string& story) {
    std::vector<Told> words;
    bool asked = false;
    std::size_t end = 0;
    while (end < story.size()) {
      const std::size_t begin = end;
      end = story.find_first_of(" .?\n", begin);
      if (end > begin) words.push_back({story.substr(begin, end - begin), begin});
      const char mark = story[end++];
      if (mark != '.' && mark != '?') continue;
      // What follows a question is its answer: not read, so that it cannot be copied.
      if (mark == '?') answers_.push_back(answer(words));
      if (mark == '.' && !asked) understand(words);
      asked = mark == '?';
      words.clear();
    }
  }

  /// In the order of the questions.
  const std::vector<Told>& answers() const { return answers_; }
  bool plausible() const { return plausible_; }

 private:
  void understand(const std::vector<Told>& words) {
    const Told &person = words[0], &last = words.back();
    const std::string& verb = words[1].name;
    if (verb == "is" || verb == "goes" || verb == "walks" || verb == "runs") {
      if (verb != "is") plausible_ = plausible_ && place_[person.name].name != last.name;
      place_[person.name] = last;
      for (const auto& [thing, holder] : holder_) {
        if (holder.name == person.name) place_[thing] = last;
      }
    } else if (verb == "has" || verb == "picks") {
      if (verb == "picks") {
        plausible_ = plausible_ && !holder_.contains(last.name) &&
                     place_[last.name].name == place_[person.name].name;
      }
      hold(last.name, person);
    } else if (verb == "puts") {
      plausible_ = plausible_ && holder_[last.name].name == person.name;
      holder_.erase(last.name);
    } else {  // Ida gives the map to Tom
      const std::string& thing = words[3].name;
      plausible_ = plausible_ && verb == "gives" && holder_[thing].name == person.name &&
                   place_[last.name].name == place_[person.name].name && last.name != person.name;
      hold(thing, last);
    }
  }

  void hold(const std::string& thing, const Told& person) {
    holder_[thing] = person;
    place_[thing] = place_[person.name];
  }

  Told answer(const std::vector<Told>& words) const {
    return (words[0].name == "Who" ? holder_ : place_).at(words.back().name);
  }

  std::map<std::string, Told> place_;   // of people and things
  std::map<std::string, Told> holder_;  // of things
  std::vector<Told> answers_;
  bool plausible_ = true;
};

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

TEST(Tales, AnswersFollowFromWhatWasToldLastAndNoneTwice) {
  EXPECT_TRUE(rc::check([] {
    const TalesOptions options = any_options();
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const Story story = tell_tale(options, random_chooser({seed, 1, 2}));
    const std::string& text = story.text;
    const Reader reader(text);
    RC_ASSERT(reader.plausible());
    RC_ASSERT(std::ssize(reader.answers()) == options.questions);
    std::set<std::string> asked;
    std::size_t mark = 0;
    for (const Told& answer : reader.answers()) {
      mark = text.find('?', mark + 1);
      const std::size_t line = text.rfind('\n', mark), end = text.find('.', mark),
                        at = text.rfind(' ', end) + 1;
      RC_ASSERT(asked.insert(text.substr(line, mark - line)).second);
      RC_ASSERT(text.substr(at, end - at) == answer.name);
      RC_ASSERT(at - static_cast<std::size_t>(story.distances[at]) == answer.at);
    }
  }));
}

// After "l" only "library" is left, after "c" there are "cave" and "cellar".
TEST(Tales, MarkTheLettersThatTellNamesApart) {
  for (std::uint32_t i = 0; i < 500; ++i) {
    const Story story = tell_tale({}, random_chooser({1, 2, i}));
    const Reader reader(story.text);
    std::vector<std::string> deciding;
    double guessed = 0;
    for (const auto& [name, position] : reader.answers()) {
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
    const Reader reader(story.text);
    std::vector<std::string> answered;
    for (const auto& [answer, position] : reader.answers()) {
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
    EXPECT_GT(all.size(), 30u);
    std::set<std::string> texts;
    for (const auto& [story, probability] : all) {
      EXPECT_NEAR(story.nats, -std::log(probability), 1e-9) << story.text;
      texts.insert(story.text);
    }
    EXPECT_EQ(texts.size(), all.size()) << "stories such as " << *texts.begin();
    // In sorted order a text that begins another comes right before one that it begins.
    const auto begins = [](const std::string& one, const std::string& next) {
      return next.starts_with(one);
    };
    EXPECT_EQ(std::ranges::adjacent_find(texts, begins), texts.end());
  }
}

// All texts as they are by default, in which every letter counts.
TEST(CorpusDefaults, AreTheSameTextEverywhere) {
  for (const auto& [name, sha256] :
       {std::pair{"tales", "646380304c9f5638b56f9d60e2135064f87798261dd688b540bc7197867224bc"},
        {"lookup", "162f727440bfdcac1dc5e77a90889252b238a7d735b7a468ef79d3975e1c3d08"},
        {"mqar", "014d4ce3121ce11d5b51669d500bd37e9b9dd82a09d269f7ae7f2d2a11e5ec47"}})
    EXPECT_EQ(load_corpus(name).sha256, sha256) << name;
}

}  // namespace
}  // namespace headcount
