#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

/// Settings as data. A `Field` describes one member of a struct; lists of fields are constant.
/// Values that somebody gave (flags, presets, config.json, the spec of an attention) are a `Given`,
/// from which `read_fields` fills a struct.

namespace headcount {

/// A setting with an unusable value. The message names the setting and the values it accepts.
class SettingError : public Error {
 public:
  using Error::Error;
};

/// Part of the program that a setting belongs to. A sweep cannot vary settings of `run` and
/// `single`; a comparison, which makes many runs, has none of `single`.
enum class Scope {
  attention,
  model,
  data,
  optimizer,
  run,
  single,
  comparison,
  evaluation,
  sampling,
  decoding,
  cache,
  maps,
};

struct WholeRange {
  Index low, high;

  bool operator==(const WholeRange&) const = default;
};
/// Numbers of tokens; k stands for 1024 and M for 1024^2, as in 128k or 1M.
struct TokenRange {
  Index low, high;

  bool operator==(const TokenRange&) const = default;
};
struct Naturals {  ///< whole numbers from 0 to 2^64 - 1
  bool operator==(const Naturals&) const = default;
};
struct NumberRange {
  double low, high;
  bool open = false;  ///< `high` itself is refused

  bool operator==(const NumberRange&) const = default;
};
struct Choice {
  std::string_view name;
  int value;

  template <class Value>
  constexpr Choice(std::string_view n, Value v) : name(n), value(static_cast<int>(v)) {}
  bool operator==(const Choice&) const = default;
  constexpr Choice() : value(0) {}
};
class Choices {
 public:
  constexpr Choices(std::initializer_list<Choice> list) {
    for (const Choice& choice : list) add(choice);
  }
  /// Throws std::length_error if there are more choices than there is room for.
  constexpr void add(const Choice& choice) {
    if (count_ == all_.size()) throw std::length_error("a setting has at most 8 choices");
    all_[count_++] = choice;
  }
  std::span<const Choice> list() const { return std::span(all_).first(count_); }
  bool operator==(const Choices&) const = default;

 private:
  std::array<Choice, 8> all_ = {};
  std::size_t count_ = 0;
};
struct FreeText {  ///< UTF-8
  bool operator==(const FreeText&) const = default;
};
/// Texts with a grammar of their own. `check` returns the shortest form of a text; throws Error.
struct Grammar {
  std::string (*check)(std::string_view text);

  bool operator==(const Grammar&) const = default;
};
/// The values that a setting accepts.
using Takes =
    std::variant<WholeRange, TokenRange, Naturals, NumberRange, Choices, FreeText, Grammar>;

/// Converts the text that was given for the setting `name`. Throws SettingError.
nlohmann::json parse_value(std::string_view name, const Takes& takes, std::string_view text);

/// Condition under which a setting has an effect: another setting has this value or, with `not_`,
/// any other one.
struct OnlyWhere {
  std::string_view setting, value;
  std::string_view otherwise;  ///< effect of a value that does not hold: "rotates nothing"
  bool not_ = false;

  bool holds(std::string_view other) const { return (other == value) != not_; }
};

/// Properties of a setting besides its name and its values.
struct Traits {
  /// The default in words, if it follows from other settings: "half of heads". Empty: it does not.
  std::string_view derived = {};
  bool bare = false;                  ///< the name alone means "on"
  bool quiet = false;                 ///< configurations do not list it while it has its default
  std::optional<Scope> scope = {};    ///< scope if it differs from that of the list
  std::string_view never_swept = {};  ///< why a comparison cannot try several values, if it cannot
  std::optional<OnlyWhere> only_where = {};
};

/// Words about a setting, and the attentions, corpora or optimizers of which they are true.
struct WordsOf {
  std::string words;
  std::vector<std::string> owners;  ///< empty: all others
};

/// One setting: a flag on the command line, a key in config.json.
struct Setting {
  std::string name;  ///< "kv-heads"
  std::string help;  ///< what it does; `help_text` adds what follows here
  Takes takes;
  Scope scope;
  Traits traits = {};
  nlohmann::json neutral = {};             ///< the default; null: derived from other settings
  std::vector<std::string> only_for = {};  ///< attentions, corpora or optimizers; empty: all
  std::vector<WordsOf> other_help = {};    ///< of owners for which it does something else
  std::vector<WordsOf> defaults = {};      ///< in words, where they are derived
  /// Splits a text that gives several settings, this one among them: `attention` gqa2 stands for
  /// `attention` gqa and `kv-heads` 2. Null: a text gives this setting only.
  std::vector<std::pair<std::string, std::string>> (*stands_for)(std::string_view text) = nullptr;

  /// Returns true if the attention, corpus or optimizer `owner` has the setting.
  bool is_for(std::string_view owner) const;
  /// Converts the text that was given for the setting. Throws SettingError.
  nlohmann::json value(std::string_view text) const { return parse_value(name, takes, text); }
  /// The value that another setting has in `values` and beside which this one has no effect, if
  /// there is one. A setting that `values` lack silences no other.
  std::optional<std::string> silenced_by(const nlohmann::ordered_json& values) const;
};

using SettingList = std::vector<Setting>;

/// The setting of that name, or null.
const Setting* find_setting(const SettingList& list, std::string_view name);
/// Joins lists in order.
SettingList together(const std::vector<SettingList>& lists);
/// Appends settings that only `owner` has; "": all owners have them. A setting that the list
/// already has for other owners gets `owner` as well, with its own words if they differ. Throws
/// std::logic_error if the two accept different values.
void add_settings(SettingList& list, SettingList more, std::string_view owner = "");

/// Says that a setting has the default `words` for `owner`. The setting must be in the list.
void add_default(SettingList& list, std::string_view name, const std::string& words,
                 std::string_view owner);
/// What a setting does and its default: the help of its flag.
std::string help_text(const Setting& setting);

/// The value of a setting as on the command line: texts without quotation marks.
std::string setting_text(const nlohmann::json& value);

/// Values of settings that somebody gave, by name. Each is checked when it is put in, and a later
/// one replaces an earlier one. A setting that is absent has its default.
class Given {
 public:
  /// Values for settings in `known`, which must live as long as the program.
  explicit Given(const SettingList& known, const nlohmann::json& values = {}) : known_(&known) {
    if (!values.is_null()) put(values);
  }

  /// Sets the setting `name`. Throws SettingError for a bad value and for a name that is no
  /// setting.
  void put(const std::string& name, const nlohmann::json& value);
  /// Puts in every member of an object. Throws SettingError.
  void put(const nlohmann::json& object);
  /// Puts in those members of `others` that are known settings. Throws SettingError.
  void put_known(const nlohmann::ordered_json& others);
  void erase(const std::string& name) { values_.erase(name); }

  bool has(std::string_view name) const { return values_.contains(name); }
  /// The value that was given, or `otherwise`.
  template <class Value>
  Value get(std::string_view name, Value otherwise) const {
    return has(name) ? values_.at(std::string(name)).get<Value>() : std::move(otherwise);
  }
  const nlohmann::ordered_json& values() const { return values_; }
  const SettingList& known() const { return *known_; }

 private:
  const SettingList* known_;
  nlohmann::ordered_json values_ = nlohmann::ordered_json::object();
};

/// Describes one member of a struct as a setting; constant.
template <class Struct>
struct Field {
  using Owner = Struct;

  std::string_view name, help;
  Takes takes;
  void (*set)(Struct& object, const Takes& takes, const nlohmann::json& value);
  nlohmann::json (*get)(const Struct& object, const Takes& takes);
  Traits traits = {};

  constexpr Field with(const Traits& more) const {
    Field field = *this;
    field.traits = more;
    return field;
  }
};

namespace field_details {

/// Value of the choice `name`, and name of the choice `value`. Throws std::logic_error for a value
/// without a name.
int value_of(const Choices& choices, std::string_view name);
std::string_view name_of(const Choices& choices, int value);

template <class Value>
constexpr bool kIsChosen = std::is_enum_v<Value> || std::is_same_v<Value, bool>;
template <class Value>
constexpr bool kIsJson = std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>;

template <class Value>
Value from_json(const Takes& takes, const nlohmann::json& value) {
  if constexpr (kIsChosen<Value>) {
    return static_cast<Value>(value_of(std::get<Choices>(takes), value.get<std::string>()));
  } else if constexpr (kIsJson<Value>) {
    return value.get<Value>();
  } else {
    return Value::parse(value.get<std::string>());
  }
}
template <class Value>
nlohmann::json to_json(const Takes& takes, const Value& value) {
  if constexpr (kIsChosen<Value>) {
    return name_of(std::get<Choices>(takes), static_cast<int>(value));
  } else if constexpr (kIsJson<Value>) {
    return value;
  } else {
    return value.text();
  }
}

template <class Struct, class Value>
Value type_of(Value Struct::*member);

template <auto member, class Struct, class Value>
constexpr Field<Struct> field(Value Struct::*, std::string_view name, std::string_view help,
                              const Takes& takes) {
  return {name, help, takes,
          [](Struct& object, const Takes& t, const nlohmann::json& value) {
            object.*member = from_json<Value>(t, value);
          },
          [](const Struct& object, const Takes& t) { return to_json(t, object.*member); }};
}
template <auto member>
constexpr auto field(std::string_view name, std::string_view help, const Takes& takes) {
  return field<member>(member, name, help, takes);
}

constexpr Index kMost = std::numeric_limits<std::int32_t>::max();

}  // namespace field_details

template <auto member>
constexpr auto whole(std::string_view name, std::string_view help, Index low,
                     Index high = field_details::kMost) {
  return field_details::field<member>(name, help, WholeRange{low, high});
}
template <auto member>
constexpr auto tokens(std::string_view name, std::string_view help, Index low,
                      Index high = field_details::kMost) {
  return field_details::field<member>(name, help, TokenRange{low, high});
}
template <auto member>
constexpr auto natural(std::string_view name, std::string_view help) {
  return field_details::field<member>(name, help, Naturals{});
}
template <auto member>
constexpr auto number(std::string_view name, std::string_view help, double low,
                      double high = std::numeric_limits<double>::max()) {
  return field_details::field<member>(name, help, NumberRange{.low = low, .high = high});
}
/// A number from 0 to below 1: a probability, a decay.
template <auto member>
constexpr auto fraction(std::string_view name, std::string_view help) {
  return field_details::field<member>(name, help, NumberRange{.low = 0, .high = 1, .open = true});
}
/// One of the given names; the member gets the value beside it.
template <auto member>
constexpr auto choice(std::string_view name, std::string_view help,
                      std::initializer_list<Choice> choices) {
  return field_details::field<member>(name, help, Choices(choices));
}
template <auto member>
constexpr auto on_off(std::string_view name, std::string_view help) {
  return choice<member>(name, help, {{"on", true}, {"off", false}});
}
template <auto member>
constexpr auto text(std::string_view name, std::string_view help) {
  return field_details::field<member>(name, help, FreeText{});
}
/// A member whose type converts itself: `parse`, which throws Error, and `text`.
template <auto member>
constexpr auto parsed(std::string_view name, std::string_view help) {
  using Type = decltype(field_details::type_of(member));
  return field_details::field<member>(
      name, help, Grammar{[](std::string_view given) { return Type::parse(given).text(); }});
}

/// A struct with the values in `given`; members that are not given keep those of `defaults`.
template <class Struct, std::size_t count>
Struct read_fields(const Field<Struct> (&fields)[count], const Given& given,
                   std::type_identity_t<Struct> defaults = {}) {
  for (const Field<Struct>& field : fields) {
    if (given.has(field.name))
      field.set(defaults, field.takes, given.values().at(std::string(field.name)));
  }
  return defaults;
}

/// The values of a struct's fields, name to value.
template <class Struct, std::size_t count>
nlohmann::ordered_json values_of(const Field<Struct> (&fields)[count], const Struct& object) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Field<Struct>& field : fields)
    all[std::string(field.name)] = field.get(object, field.takes);
  return all;
}

/// An entry of a list of settings.
Setting listed(std::string_view name, std::string_view help, const Takes& takes, Scope scope,
               const Traits& traits = {}, const nlohmann::json& neutral = {});
/// The settings that `fields` describe.
template <class Struct, std::size_t count>
SettingList settings_of(const Field<Struct> (&fields)[count], Scope scope) {
  SettingList list;
  for (const Field<Struct>& f : fields) {
    list.push_back(listed(f.name, f.help, f.takes, scope, f.traits,
                          f.traits.derived.empty() ? f.get(Struct{}, f.takes) : nlohmann::json()));
  }
  return list;
}

/// Settings of one kind of attention, corpus or optimizer: fields of a struct that only its own
/// files use.
struct OwnFields {
  SettingList (*settings)(Scope scope) = [](Scope) { return SettingList(); };
  nlohmann::ordered_json (*values)(const std::any& own) = [](const std::any&) {
    return nlohmann::ordered_json::object();
  };
};
template <const auto& fields>
constexpr OwnFields own_fields() {
  using Struct = typename std::remove_cvref_t<decltype(fields[0])>::Owner;
  return {[](Scope scope) { return settings_of(fields, scope); },
          [](const std::any& own) { return values_of(fields, std::any_cast<const Struct&>(own)); }};
}

}  // namespace headcount
