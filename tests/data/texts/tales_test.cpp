// label: unsanitized
#include "data/texts/tales.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/corpus.h"
#include "data/grammar.h"

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
      for (const Told& word : words) {
        if (answers_.empty()) told_.push_back(word.name);
      }
      asked = mark == '?';
      words.clear();
    }
  }

  /// In the order of the questions.
  const std::vector<Told>& answers() const { return answers_; }
  /// All words of the story before the questions.
  const std::vector<std::string>& told() const { return told_; }
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
  std::vector<std::string> told_;
  bool plausible_ = true;
};

// Few names, some of which another one continues.
const TalesNames kSimilar = {.people = {"Ann", "Anna", "Tom"},
                             .things = {"map", "cup"},
                             .places = {"mill", "mills", "barn"}};

TalesOptions any_options(const TalesNames& names) {
  const auto up_to = [](std::size_t most) {
    return *rc::gen::inRange<Index>(1, static_cast<Index>(most) + 1);
  };
  TalesOptions options = {.people = up_to(names.people.size()),
                          .things = up_to(names.things.size()),
                          .places = up_to(names.places.size()),
                          .events = *rc::gen::inRange<Index>(0, 30)};
  options.questions = up_to(options.people + options.things);
  return options;
}

Chooser any_chooser() { return random_chooser({*rc::gen::arbitrary<std::uint64_t>(), 1, 2}); }

// Each character of an answer is judged by the names that begin as the answer does so far: it is
// marked where they go on differently.
RC_GTEST_PROP(Tales, AnswersFollowFromWhatWasToldLastAndNoneTwice, ()) {
  const TalesNames& names = *rc::gen::arbitrary<bool>() ? kSimilar : tales_names();
  const TalesOptions options = any_options(names);
  const Story story = tell_tale(options, any_chooser(), names);
  const std::string& text = story.text;
  const Reader reader(text);
  RC_ASSERT(reader.plausible());
  RC_ASSERT(std::ssize(reader.answers()) == options.questions);
  std::set<std::string> asked;
  std::vector<std::string> answered;
  std::vector<std::int32_t> distances(text.size(), 0);
  Baselines right;
  std::size_t mark = 0;
  for (const auto& [name, told_at] : reader.answers()) {
    mark = text.find('?', mark + 1);
    const std::size_t line = text.rfind('\n', mark), end = text.find('.', mark),
                      at = text.rfind(' ', end) + 1;
    RC_ASSERT(asked.insert(text.substr(line, mark - line)).second);
    RC_ASSERT(text.substr(at, end - at) == name);
    const bool is_place = std::islower(static_cast<unsigned char>(name[0])) != 0;
    for (std::size_t i = 0; i <= name.size(); ++i) {
      std::map<char, Index> all, earlier, told;
      Index alike = 0, most = 0;
      for (const std::string_view other : is_place ? names.places : names.people) {
        if (!other.starts_with(name.substr(0, i))) continue;
        const char next = i < other.size() ? other[i] : '.';
        ++alike;
        most = std::max(most, ++all[next]);
        earlier[next] += std::ranges::count(answered, other);
        told[next] += std::ranges::count(reader.told(), other);
      }
      if (all.size() < 2) continue;
      distances[at + i] = static_cast<std::int32_t>(at - told_at);
      const double guess = static_cast<double>(most) / static_cast<double>(alike);
      right += {.guesser = guess,
                .copier = share_of_commonest(earlier, text[at + i], guess),
                .commonest = share_of_commonest(told, text[at + i], guess)};
    }
    answered.push_back(name);
  }
  RC_ASSERT(story.distances == distances);
  RC_ASSERT(are_near(story.baselines, right));
}

RC_GTEST_PROP(Tales, KeepToTheNumbersAskedFor, ()) {
  const TalesOptions options = any_options(tales_names());
  const std::string text = tell_tale(options, any_chooser()).text;
  const Reader reader(text);
  const auto named = [&](const std::vector<std::string_view>& names) {
    return std::ranges::count_if(
        names, [&](std::string_view name) { return std::ranges::count(reader.told(), name) > 0; });
  };
  RC_ASSERT(named(tales_names().people) == options.people);
  RC_ASSERT(named(tales_names().things) == options.things);
  RC_ASSERT(named(tales_names().places) <= options.places);
  RC_ASSERT(std::ranges::count(text, '?') == options.questions);
  const auto opening_and_answers = options.people + options.things + options.questions;
  RC_ASSERT(std::ranges::count(text, '.') == opening_and_answers + options.events);
  RC_ASSERT(text.find("\n\n") == text.size() - 2);  // its only empty line is the last
}

// Every story of these sizes with its probability: a chooser walks through all sequences of
// choices, like an odometer whose wheels appear as the story asks for them.
std::vector<std::pair<Story, double>> every_story(const TalesOptions& options) {
  struct Wheel {
    std::uint64_t position, count;
  };
  std::vector<Wheel> wheels;
  std::vector<std::pair<Story, double>> all;
  do {
    std::size_t depth = 0;
    double probability = 1;
    const auto choose = [&](std::uint64_t count) {
      if (depth == wheels.size()) wheels.push_back({0, count});
      probability /= static_cast<double>(count);
      return wheels[depth++].position;
    };
    const Story story = tell_tale(options, choose, kSimilar);
    all.emplace_back(story, probability);
    while (!wheels.empty() && ++wheels.back().position == wheels.back().count) wheels.pop_back();
  } while (!wheels.empty());
  return all;
}

TEST(Tales, NatsAreExactOverAllStories) {
  const TalesOptions tiny[] = {
      {.people = 1, .things = 1, .places = 1, .events = 3, .questions = 2},
      {.people = 2, .things = 1, .places = 1, .events = 3, .questions = 1},
      {.people = 1, .things = 1, .places = 3, .events = 3, .questions = 1},
      {.people = 2, .things = 1, .places = 2, .events = 2, .questions = 2},
      {.people = 2, .things = 2, .places = 2, .events = 1, .questions = 1},
      {.people = 3, .things = 2, .places = 3, .events = 0, .questions = 1},
  };
  for (const TalesOptions& options : tiny) {
    const auto all = every_story(options);
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
        {"lookup", "739af1681b848dba8ed617d3cba8874021cc2fb65a324ef1b61381e70dd80dbf"},
        {"recall", "f1d0072f41e9a507fae794f37373a0fbd464f6b7d66b325e66a5122bd250df1d"},
        {"mqar", "014d4ce3121ce11d5b51669d500bd37e9b9dd82a09d269f7ae7f2d2a11e5ec47"}})
    EXPECT_EQ(load_corpus(name).sha256, sha256) << name;
}

}  // namespace
}  // namespace headcount
