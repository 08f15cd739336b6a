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
  Index told = 0;     // position of the place's name
};

struct Thing {
  Name name;
  std::optional<std::size_t> holder;  // in Tale::people_
  std::size_t place;                  // where it lies; a held thing is where its holder is
  Index told = 0;                     // position of the name of the holder, or of the place
};

/// Event that is possible now. A field that the kind of deed does not need stays 0.
struct Deed {
  std::size_t person = 0;
  std::size_t thing = 0;
  std::size_t receiver = 0;
};

/// Story while it is told. Each choice shows in the text at once, in the order of choosing, which
/// makes the map from choices to texts injective.
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

  /// Tells one of the deeds that are possible now. Its kind is chosen first, so that the many walks
  /// do not crowd out the few gifts. Some kind is always possible: what is held can be dropped, and
  /// where there is one place only, what lies there can be picked up.
  void tell_event() {
    std::vector<Deed> walks, gifts, drops, finds;
    for (std::size_t person = 0; person < people_.size() && options_.places > 1; ++person)
      walks.push_back({person});
    for (std::size_t thing = 0; thing < things_.size(); ++thing) {
      const auto holder = things_[thing].holder;
      if (holder) drops.push_back({*holder, thing});
      for (std::size_t person = 0; person < people_.size(); ++person) {
        if (person == holder || people_[person].place != place_of(things_[thing])) continue;
        if (holder) {
          gifts.push_back({*holder, thing, person});
        } else {
          finds.push_back({person, thing});
        }
      }
    }
    std::vector<std::pair<std::vector<Deed>, void (Tale::*)(const Deed&)>> kinds = {
        {walks, &Tale::walk}, {gifts, &Tale::give}, {drops, &Tale::drop}, {finds, &Tale::find}};
    std::erase_if(kinds, [](const auto& kind) { return kind.first.empty(); });
    const auto& [deeds, tell] = kinds[writer_.choose(kinds.size())];
    (this->*tell)(deeds[writer_.choose(deeds.size())]);
  }

  /// Writes an answer, which the story told at position `told`, and a full stop. Letters in which
  /// names with the same beginning differ are marked as answers, since only the story determines
  /// them. All names are equally likely, so the best guess is the letter that most of them have.
  void write_answer(Name answer, Index told, const std::vector<Name>& names) {
    const std::string text = std::string(answer) + ".";
    for (std::size_t i = 0; i < text.size(); ++i) {
      // Counts of the next letter over the names that begin as the answer does so far: over all of
      // them, over those that earlier answers gave, and over those that the story told.
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
      Index told;                    // position of the name in the story
      const std::vector<Name>* all;  // names among which the answer is
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
  TalesNames names_;  // names that are not yet in the story
  StoryWriter writer_;
  std::vector<Person> people_;
  std::vector<Thing> things_;
  std::vector<Name> places_;
  std::map<Name, Index> told_, answered_;  // counts in the story and in its answers
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

extern const BuiltInCorpus kTales = {
    .name = "tales", .writer = tales_writer, .defaults = tales_defaults};

}  // namespace headcount
