#include "data/tales.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "data/built_in.h"

namespace headcount {

namespace {

using Name = std::string_view;

struct Person {
  Name name;
  std::size_t place;  // in Tale::places_
  Index told = 0;     // where the place's name stands
};

struct Thing {
  Name name;
  std::optional<std::size_t> holder;  // in Tale::people_
  std::size_t place;                  // where it lies; of a held thing, its holder's place counts
  Index told = 0;                     // where the name of the holder, or of the place, stands
};

/// Something that can happen now. A field that the kind of deed does not need stays 0.
struct Deed {
  std::size_t person = 0;
  std::size_t thing = 0;
  std::size_t receiver = 0;
};

/// A story while it is told. Each choice shows in the text at once, in the order of choosing:
/// that makes the map from choices to texts injective.
class Tale {
 public:
  Tale(const TalesOptions& options, const Chooser& chooser, const TalesNames& names)
      : options_(options), all_(names), names_(names), writer_(chooser) {}

  Story tell() {
    introduce_people();
    introduce_things();
    for (Index event = 0; event < options_.events; ++event) {
      if (event > 0) writer_.write(" ");
      tell_event();
    }
    if (options_.events > 0) writer_.write("\n");
    ask_questions();
    writer_.write("\n");
    return std::move(writer_).finish();
  }

 private:
  void write(std::initializer_list<std::string_view> parts) {
    for (const auto part : parts) {
      writer_.write(part);
      ++told_[part];
    }
  }

  std::size_t place_of(const Thing& thing) const {
    return thing.holder ? people_[*thing.holder].place : thing.place;
  }

  /// A place of the story other than `here`; a new place counts as one more alternative while the
  /// story may have more places.
  std::size_t choose_place(std::optional<std::size_t> here) {
    const std::size_t known = places_.size() - (here ? 1 : 0);
    const bool may_be_new = std::ssize(places_) < options_.places;
    std::size_t chosen = writer_.choose(known + (may_be_new ? 1 : 0));
    if (chosen == known) {
      places_.push_back(writer_.draw(names_.places));
      return places_.size() - 1;
    }
    if (here && chosen >= *here) ++chosen;
    return chosen;
  }

  void introduce_people() {
    for (Index i = 0; i < options_.people; ++i) {
      const Name name = writer_.draw(names_.people);
      const std::size_t place = choose_place(std::nullopt);
      write({i == 0 ? "" : " ", name, " is in the "});
      people_.push_back({name, place, writer_.position()});
      write({places_[place], "."});
    }
    writer_.write("\n");
  }

  void introduce_things() {
    for (Index i = 0; i < options_.things; ++i) {
      const std::size_t holder = writer_.choose(people_.size());
      const Name name = writer_.draw(names_.things);
      writer_.write(i == 0 ? "" : " ");
      things_.push_back({name, holder, 0, writer_.position()});
      write({people_[holder].name, " has the ", name, "."});
    }
    writer_.write("\n");
  }

  // The deeds of each kind that are possible now.

  std::vector<Deed> walks() const {
    std::vector<Deed> deeds;
    if (options_.places == 1) return deeds;
    for (std::size_t person = 0; person < people_.size(); ++person) deeds.push_back({person});
    return deeds;
  }

  std::vector<Deed> gifts() const {
    std::vector<Deed> deeds;
    for (std::size_t thing = 0; thing < things_.size(); ++thing) {
      const auto giver = things_[thing].holder;
      if (!giver) continue;
      for (std::size_t receiver = 0; receiver < people_.size(); ++receiver) {
        if (receiver != *giver && people_[receiver].place == people_[*giver].place) {
          deeds.push_back({*giver, thing, receiver});
        }
      }
    }
    return deeds;
  }

  std::vector<Deed> drops() const {
    std::vector<Deed> deeds;
    for (std::size_t thing = 0; thing < things_.size(); ++thing) {
      if (things_[thing].holder) deeds.push_back({*things_[thing].holder, thing});
    }
    return deeds;
  }

  std::vector<Deed> finds() const {
    std::vector<Deed> deeds;
    for (std::size_t thing = 0; thing < things_.size(); ++thing) {
      if (things_[thing].holder) continue;
      for (std::size_t person = 0; person < people_.size(); ++person) {
        if (people_[person].place == things_[thing].place) deeds.push_back({person, thing});
      }
    }
    return deeds;
  }

  void walk(const Deed& deed) {
    constexpr std::array<Name, 3> verbs = {" goes to the ", " walks to the ", " runs to the "};
    Person& person = people_[deed.person];
    const Name verb = verbs[writer_.choose(verbs.size())];
    person.place = choose_place(person.place);
    write({person.name, verb});
    person.told = writer_.position();
    write({places_[person.place], "."});
  }

  void give(const Deed& deed) {
    Thing& thing = things_[deed.thing];
    thing.holder = deed.receiver;
    write({people_[deed.person].name, " gives the ", thing.name, " to "});
    thing.told = writer_.position();
    write({people_[deed.receiver].name, "."});
  }

  void drop(const Deed& deed) {
    Thing& thing = things_[deed.thing];
    thing.holder.reset();
    thing.place = people_[deed.person].place;
    thing.told = people_[deed.person].told;
    write({people_[deed.person].name, " puts down the ", thing.name, "."});
  }

  void find(const Deed& deed) {
    Thing& thing = things_[deed.thing];
    thing.holder = deed.person;
    thing.told = writer_.position();
    write({people_[deed.person].name, " picks up the ", thing.name, "."});
  }

  /// The kind is chosen first, so that the many possible walks do not crowd out the few gifts.
  /// Some kind is always possible: what is held can be dropped, and where there is one place only,
  /// what lies there can be picked up.
  void tell_event() {
    struct Kind {
      std::vector<Deed> deeds;
      void (Tale::*tell)(const Deed&);
    };
    std::vector<Kind> kinds = {{walks(), &Tale::walk},
                               {gifts(), &Tale::give},
                               {drops(), &Tale::drop},
                               {finds(), &Tale::find}};
    std::erase_if(kinds, [](const Kind& kind) { return kind.deeds.empty(); });
    const Kind& kind = kinds[writer_.choose(kinds.size())];
    (this->*kind.tell)(kind.deeds[writer_.choose(kind.deeds.size())]);
  }

  /// The answer, which stands at `told` too, and a full stop. Where names that begin alike go on
  /// differently, only the story decides; the best guess is the letter that most of them have, for
  /// all are equally likely.
  void write_answer(Name answer, Index told, const std::vector<Name>& names) {
    const std::string text = std::string(answer) + ".";
    for (std::size_t i = 0; i < text.size(); ++i) {
      // How often each letter comes next: in the names that begin so, and in those of them that
      // earlier answers gave, and that the story told.
      std::map<char, Index> next, answered, told_so_far;
      Index alike = 0;
      for (const Name name : names) {
        if (!name.starts_with(answer.substr(0, i))) continue;
        const char letter = i < name.size() ? name[i] : '.';
        ++next[letter];
        ++alike;
        answered[letter] += answered_[name];
        told_so_far[letter] += told_[name];
      }
      if (next.size() < 2) {
        writer_.write(text.substr(i, 1));
        continue;
      }
      const auto likeliest =
          std::ranges::max_element(next, {}, [](auto& pair) { return pair.second; });
      const double guess = static_cast<double>(likeliest->second) / static_cast<double>(alike);
      writer_.write_answer(text.substr(i, 1),
                           {.guesser = guess,
                            .copier = commonest_is(text[i], answered, guess),
                            .commonest = commonest_is(text[i], told_so_far, guess)},
                           told + static_cast<Index>(i));
    }
    ++answered_[answer];
  }

  void ask_questions() {
    struct Question {
      std::array<std::string_view, 3> ask;
      Name answer;
      Index told;                    // where the story says so
      const std::vector<Name>* all;  // what it could be
    };
    std::vector<Question> questions;
    for (const Person& person : people_) {
      questions.push_back({{"Where is ", person.name, "? In the "},
                           places_[person.place],
                           person.told,
                           &all_.places});
    }
    for (const Thing& thing : things_) {
      questions.push_back({{"Where is the ", thing.name, "? In the "},
                           places_[place_of(thing)],
                           thing.holder ? people_[*thing.holder].told : thing.told,
                           &all_.places});
      if (thing.holder) {
        questions.push_back({{"Who has the ", thing.name, "? "},
                             people_[*thing.holder].name,
                             thing.told,
                             &all_.people});
      }
    }
    for (Index i = 0; i < options_.questions; ++i) {
      const Question question = writer_.draw(questions);
      for (const auto part : question.ask) writer_.write(part);
      write_answer(question.answer, question.told, *question.all);
      writer_.write("\n");
    }
  }

  TalesOptions options_;
  const TalesNames& all_;
  TalesNames names_;  // those not yet in the story
  StoryWriter writer_;
  std::vector<Person> people_;
  std::vector<Thing> things_;
  std::vector<Name> places_;
  std::map<Name, Index> told_, answered_;  // how often, by the story and by answers
};

}  // namespace

const TalesNames& tales_names() {
  static const TalesNames names = {
      .people = {"Anna", "Ben", "Clara", "David", "Ella", "Felix", "Greta", "Hugo", "Ida", "Jack",
                 "Mary", "Tom"},
      .things = {"apple", "ball", "bell", "book", "candle", "coin", "cup", "drum", "feather",
                 "flute", "hat", "key", "lamp", "map", "ring", "rope"},
      .places = {"attic", "barn", "cave", "cellar", "forest", "garden", "kitchen", "library",
                 "meadow", "mill", "stable", "tower"},
  };
  return names;
}

Story tell_tale(const TalesOptions& options, const Chooser& chooser, const TalesNames& names) {
  return Tale(options, chooser, names).tell();
}

namespace {

std::function<Story(const Chooser&)> tales_writer(const Given&) {
  return [](const Chooser& chooser) { return tell_tale({}, chooser); };
}

// The longest tale has 279 characters.
nlohmann::json tales_defaults() {
  return {{"layers", 2},  {"dim", 64},     {"context", 288},       {"lr", 3e-3},
          {"warmup", 20}, {"beta2", 0.95}, {"score-scale", "none"}};
}

}  // namespace

const BuiltInCorpus kTales = {.name = "tales", .writer = tales_writer, .defaults = tales_defaults};

}  // namespace headcount
