#pragma once

#include <any>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

/// Settings as data. A `Field` describes one setting of a struct, a list of fields is constant.
/// What somebody gives (flags, presets, config.json, the words of an attention) is one kind of
/// data, a `Given`. Reading it into structs, and filling in what nobody gave, is to resolve it.

namespace headcount {

/// A setting with an unusable value; the message names the setting and says what it takes.
class SettingError : public Error {
 public:
  using Error::Error;
};

/// What a setting belongs to. `run`: changes no result; `single`: the same, of one run where a
/// comparison has many.
enum class Scope {
  attention,
  model,
  data,
  optimiser,
  run,
  single,
  comparison,
  conversion,
  evaluation,
  sampling,
  decoding,
  cache,
  maps,
};

struct WholeRange {
  Index low, high;
};
/// Numbers of tokens, which may be given in units of 1024 or 1024^2, as contexts are: 128k, 1M.
struct TokenRange {
  Index low, high;
};
struct Naturals {};  ///< of 64 bits
struct NumberRange {
  double low, high;
  bool open;  ///< `high` itself is no value
};
struct Choice {
  std::string_view name;
  int value;

  template <class Value>
  constexpr Choice(std::string_view n, Value v) : name(n), value(static_cast<int>(v)) {}
  constexpr Choice() : value(0) {}
};
struct Choices {
  std::array<Choice, 6> all = {};
  std::size_t count = 0;

  constexpr Choices(std::initializer_list<Choice> list) {
    for (const Choice& choice : list) all[count++] = choice;
  }
  std::span<const Choice> list() const { return std::span(all).first(count); }
};
struct FreeText {};  ///< UTF-8
/// Texts with a grammar of their own; `check` gives the shortest form, and throws Error.
struct Grammar {
  std::string (*check)(std::string_view text);
};
/// What a setting takes.
using Takes =
    std::variant<WholeRange, TokenRange, Naturals, NumberRange, Choices, FreeText, Grammar>;

/// The value of the setting `name` in `text`. Throws SettingError.
nlohmann::json parse_value(std::string_view name, const Takes& takes, std::string_view text);

/// What a conversion to another attention does with a setting of the model.
enum class InConversion {
  unknown,  ///< it cannot heed it: it refuses another value than the default
  same,     ///< the converted model has the same value
  kept,     ///< it has the same value unless another one is given
  open,     ///< it is chosen anew
};

/// The setting means something only where another one has this value.
struct OnlyWhere {
  std::string_view setting, value;
  std::string_view otherwise;  ///< what another value does: "rotates nothing"
};

/// What is known of a setting beside its name and its values.
struct Traits {
  /// The default follows from the other settings; help says how. Such a setting is never neutral.
  bool derived = false;
  bool bare = false;                ///< the name alone means "on"
  bool quiet = false;               ///< configurations leave the default out
  std::optional<Scope> scope = {};  ///< if it is not that of its list
  InConversion conversion = InConversion::unknown;
  std::string_view never_swept = {};  ///< why a comparison cannot try several values; empty: it can
  std::optional<OnlyWhere> only_where = {};
};

/// One setting: a flag on the command line, a key in config.json.
struct Setting {
  std::string name;  ///< "kv-heads"
  std::string help;
  Takes takes;
  Scope scope;
  Traits traits = {};
  nlohmann::json neutral = {};             ///< the default; null: it follows from the others
  std::vector<std::string> only_for = {};  ///< attentions, corpora or optimizers; empty: all
  /// The settings that a text of this one stands for, itself among them: gqa2 is `attention` gqa
  /// and `kv-heads` 2. Null: for itself.
  std::vector<std::pair<std::string, std::string>> (*stands_for)(std::string_view text) = nullptr;

  /// Whether it means something with the attention, corpus or optimizer of that name.
  bool is_for(std::string_view name_of_one) const;
  /// The value in `text`. Throws SettingError.
  nlohmann::json value(std::string_view text) const { return parse_value(name, takes, text); }
};

using SettingList = std::vector<Setting>;

/// Null if there is none of that name.
const Setting* find_setting(const SettingList& list, std::string_view name);
/// Lists one after the other.
SettingList together(const std::vector<SettingList>& lists);
/// Adds settings that are for `name` alone, "": for all. One that is in the list already, for
/// others, becomes one for both. Throws std::logic_error if the two take other values.
void add_settings(SettingList& list, SettingList more, std::string_view name = "");

/// The value of a setting as flags have it: texts without quotation marks.
std::string setting_text(const nlohmann::json& value);

/// Settings that somebody gave, by name. A value is checked when it is put in; what is absent has
/// its default. Precedence is the order in which values are put.
class Given {
 public:
  /// `known` must live as long as the program.
  explicit Given(const SettingList& known, const nlohmann::json& values = {}) : known_(&known) {
    if (!values.is_null()) put(values);
  }

  /// Throws SettingError, also for a name that is no setting.
  void put(const std::string& name, const nlohmann::json& value);
  /// All of an object. Throws SettingError.
  void put(const nlohmann::json& object);
  /// Those of `others` that are known here.
  void put_known(const nlohmann::ordered_json& others);
  void erase(const std::string& name) { values_.erase(name); }

  bool has(std::string_view name) const { return values_.contains(name); }
  /// What was given, or `otherwise`.
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

/// Describes one setting of a struct; constant.
template <class Struct>
struct Field {
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

/// Place of `name`, and of `value`; throws std::logic_error for a value without a name.
int value_of(const Choices& choices, std::string_view name);
std::string_view name_of(const Choices& choices, int value);

template <auto member>
struct Member;
template <class Struct, class Value, Value Struct::*member>
struct Member<member> {
  using Owner = Struct;
  using Type = Value;

  static void set(Struct& object, const Takes& takes, const nlohmann::json& value) {
    if constexpr (std::is_enum_v<Value> || std::is_same_v<Value, bool>) {
      object.*member =
          static_cast<Value>(value_of(std::get<Choices>(takes), value.get<std::string>()));
    } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
      object.*member = value.get<Value>();
    } else {
      object.*member = Value::parse(value.get<std::string>());
    }
  }
  static nlohmann::json get(const Struct& object, const Takes& takes) {
    if constexpr (std::is_enum_v<Value> || std::is_same_v<Value, bool>) {
      return name_of(std::get<Choices>(takes), static_cast<int>(object.*member));
    } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
      return object.*member;
    } else {
      return (object.*member).text();
    }
  }
};

template <class Struct, std::size_t count>
Struct struct_of(const Field<Struct> (&fields)[count]);

template <auto member>
constexpr Field<typename Member<member>::Owner> field(std::string_view name, std::string_view help,
                                                      const Takes& takes) {
  return {name, help, takes, &Member<member>::set, &Member<member>::get};
}

}  // namespace field_details

template <auto member>
constexpr auto whole(std::string_view name, std::string_view help, Index low,
                     Index high = std::numeric_limits<std::int32_t>::max()) {
  return field_details::field<member>(name, help, WholeRange{low, high});
}
template <auto member>
constexpr auto tokens(std::string_view name, std::string_view help, Index low,
                      Index high = std::numeric_limits<std::int32_t>::max()) {
  return field_details::field<member>(name, help, TokenRange{low, high});
}
template <auto member>
constexpr auto natural(std::string_view name, std::string_view help) {
  return field_details::field<member>(name, help, Naturals{});
}
/// low <= value <= high, or < high with `open`.
template <auto member>
constexpr auto number(std::string_view name, std::string_view help, double low,
                      double high = std::numeric_limits<double>::max(), bool open = false) {
  return field_details::field<member>(name, help, NumberRange{low, high, open});
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
/// A member whose type reads and writes itself: `parse`, which throws Error, and `text`.
template <auto member>
constexpr auto parsed(std::string_view name, std::string_view help) {
  using Type = typename field_details::Member<member>::Type;
  return field_details::field<member>(
      name, help, Grammar{[](std::string_view given) { return Type::parse(given).text(); }});
}

/// `defaults` with what was given of these settings.
template <class Struct, std::size_t count>
Struct read_fields(const Field<Struct> (&fields)[count], const Given& given,
                   std::type_identity_t<Struct> defaults = {}) {
  for (const Field<Struct>& field : fields) {
    if (given.has(field.name))
      field.set(defaults, field.takes, given.values().at(std::string(field.name)));
  }
  return defaults;
}

/// The values of these settings, name to value.
template <class Struct, std::size_t count>
nlohmann::ordered_json values_of(const Field<Struct> (&fields)[count], const Struct& object) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Field<Struct>& field : fields)
    all[std::string(field.name)] = field.get(object, field.takes);
  return all;
}

/// A setting as lists have it: help names the choices.
Setting listed(std::string_view name, std::string_view help, const Takes& takes, Scope scope,
               const Traits& traits = {}, const nlohmann::json& neutral = {});
/// The settings that these fields describe.
template <class Struct, std::size_t count>
SettingList settings_of(const Field<Struct> (&fields)[count], Scope scope) {
  SettingList list;
  const Struct defaults{};
  for (const Field<Struct>& f : fields) {
    list.push_back(listed(f.name, f.help, f.takes, scope, f.traits,
                          f.traits.derived ? nlohmann::json() : f.get(defaults, f.takes)));
  }
  return list;
}

/// The settings that a kind of attention, a corpus or an optimizer has for itself: fields of a
/// struct that nobody else knows.
struct OwnFields {
  SettingList (*settings)(Scope scope) = [](Scope) { return SettingList(); };
  nlohmann::ordered_json (*values)(const std::any& own) = [](const std::any&) {
    return nlohmann::ordered_json::object();
  };
};
template <const auto& fields>
constexpr OwnFields own_fields() {
  return {[](Scope scope) { return settings_of(fields, scope); },
          [](const std::any& own) {
            using Struct = decltype(field_details::struct_of(fields));
            return values_of(fields, std::any_cast<const Struct&>(own));
          }};
}

}  // namespace headcount
