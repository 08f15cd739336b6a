#include "data/texts/tales.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "data/built_in.h"

namespace headcount {

namespace {

using Name = std::string_view;

struct Person {
  Name name, place;
  Index told = 0;  // position of the place's name
};

struct Thing {
  Name name;
  Person* holder;  // null: it lies at `place`
  Name place = {};
  Index told = 0;  // position of the name of the holder, or of the place
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
  void write(std::initializer_list<Name> parts) {
    for (const Name part : parts) {
      writer_.write(part);
      writer_.tell(part);
    }
  }

  static Name place_of(const Thing& thing) {
    return thing.holder ? thing.holder->place : thing.place;
  }

  /// A place of the story other than `here`; a new place counts as one more alternative while the
  /// story may have more places.
  Name choose_place(Name here) {
    std::vector<Name> known = places_;
    std::erase(known, here);
    const bool may_be_new = std::ssize(places_) < options_.places;
    const Index chosen = writer_.choose(std::ssize(known) + may_be_new);
    if (chosen < std::ssize(known)) return known[chosen];
    return places_.emplace_back(writer_.draw(names_.places));
  }

  void introduce_people() {
    for (Index i = 0; i < options_.people; ++i) {
      const Name name = writer_.draw(names_.people);
      const Name place = choose_place("");
      write({i == 0 ? "" : " ", name, " is in the "});
      people_.push_back({name, place, writer_.position()});
      write({place, "."});
    }
    writer_.write("\n");
  }

  void introduce_things() {
    for (Index i = 0; i < options_.things; ++i) {
      Person& holder = people_[writer_.choose(people_.size())];
      const Name name = writer_.draw(names_.things);
      writer_.write(i == 0 ? "" : " ");
      things_.push_back({name, &holder, "", writer_.position()});
      write({holder.name, " has the ", name, "."});
    }
    writer_.write("\n");
  }

  void walk(Person& person) {
    constexpr std::array<Name, 3> verbs = {" goes to the ", " walks to the ", " runs to the "};
    const Name verb = verbs[writer_.choose(verbs.size())];
    person.place = choose_place(person.place);
    write({person.name, verb});
    person.told = writer_.position();
    write({person.place, "."});
  }

  void give(Thing& thing, Person& receiver) {
    write({thing.holder->name, " gives the ", thing.name, " to "});
    thing.holder = &receiver;
    thing.told = writer_.position();
    write({receiver.name, "."});
  }

  void drop(Thing& thing) {
    const Person& person = *std::exchange(thing.holder, nullptr);
    thing.place = person.place;
    thing.told = person.told;
    write({person.name, " puts down the ", thing.name, "."});
  }

  void find(Thing& thing, Person& person) {
    thing.holder = &person;
    thing.told = writer_.position();
    write({person.name, " picks up the ", thing.name, "."});
  }

  /// Tells one of the events that are possible now. Its kind is chosen first, so that the many
  /// walks do not crowd out the few gifts. Some kind is always possible: what is held can be
  /// dropped, and where there is one place only, what lies there can be picked up.
  void tell_event() {
    using Events = std::vector<std::function<void()>>;
    Events walks, gifts, drops, finds;
    for (Person& person : people_) {
      if (options_.places > 1) walks.push_back([&] { walk(person); });
    }
    for (Thing& thing : things_) {
      if (thing.holder) drops.push_back([&] { drop(thing); });
      for (Person& person : people_) {
        if (&person == thing.holder || person.place != place_of(thing)) continue;
        if (thing.holder) {
          gifts.push_back([&] { give(thing, person); });
        } else {
          finds.push_back([&] { find(thing, person); });
        }
      }
    }
    std::vector<Events> kinds = {walks, gifts, drops, finds};
    std::erase_if(kinds, [](const Events& events) { return events.empty(); });
    const Events& events = kinds[writer_.choose(kinds.size())];
    events[writer_.choose(events.size())]();
  }

  void ask_questions() {
    struct Question {
      std::string text;
      Name answer;
      Index told;                    // position of the answer in the story
      const std::vector<Name>* all;  // names among which the answer is
    };
    std::vector<Question> questions;
    const auto ask = [&](Name begin, Name about, Name end, Name answer, Index told,
                         const std::vector<Name>& all) {
      questions.push_back({std::string(begin).append(about).append(end), answer, told, &all});
    };
    for (const Person& person : people_)
      ask("Where is ", person.name, "? In the ", person.place, person.told, all_.places);
    for (const Thing& thing : things_) {
      ask("Where is the ", thing.name, "? In the ", place_of(thing),
          thing.holder ? thing.holder->told : thing.told, all_.places);
      if (thing.holder)
        ask("Who has the ", thing.name, "? ", thing.holder->name, thing.told, all_.people);
    }
    for (Index i = 0; i < options_.questions; ++i) {
      const Question question = writer_.draw(questions);
      writer_.write(question.text);
      writer_.write_answer(question.answer, ".", question.told, *question.all);
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

StoryGrammar tales_writer(const Given&) {
  return [](const Chooser& chooser) { return tell_tale({}, chooser); };
}

// The longest tale has 279 characters.
nlohmann::json tales_defaults() {
  return {{"layers", 2}, {"dim", 64},    {"context", 288},
          {"lr", 3e-3},  {"warmup", 20}, {"beta2", 0.95}};
}

}  // namespace

extern const BuiltInCorpus kTales = {
    .name = "tales",
    .about = "persons walk about and carry things, and questions ask where they are",
    .writer = tales_writer,
    .defaults = tales_defaults};

}  // namespace headcount
