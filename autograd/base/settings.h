#pragma once

#include <concepts>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

/// Settings as one table: what each is called, does and accepts, its default in words and in code,
/// and who has it. Where they come in and go out (flags, presets, config.json, the word of an
/// attention) values are JSON by name; whoever computes with them reads a struct.

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

struct WholeRange {  ///< counts, of which k stands for 1024 and M for 1024^2, as in 128k or 1M
  Index low, high = std::numeric_limits<std::int32_t>::max();

  bool operator==(const WholeRange&) const = default;
};
struct Naturals {  ///< whole numbers from 0 to 2^64 - 1
  bool operator==(const Naturals&) const = default;
};
struct NumberRange {  ///< 0 and numbers that single precision has in full
  double low, high = std::numeric_limits<double>::max();
  bool below_high = false;  ///< `high` itself is refused

  bool operator==(const NumberRange&) const = default;
};
/// Names of the values of an enumeration, the table from which a setting is read and written.
template <class Value>
using Named = std::pair<std::string_view, Value>;

struct Choices {
  std::vector<std::string> names;

  explicit Choices(std::vector<std::string> all) : names(std::move(all)) {}
  template <class Value, std::size_t count>
  Choices(const Named<Value> (&table)[count]) {
    for (const auto& [name, value] : table) names.emplace_back(name);
  }
  bool operator==(const Choices&) const = default;
};
struct Text {  ///< UTF-8
  /// Shortest form of a text with a grammar; throws Error for any other. Null: all are accepted.
  std::string (*shortest)(std::string_view text) = nullptr;

  bool operator==(const Text&) const = default;
};
/// The values that a setting accepts.
using Takes = std::variant<WholeRange, Naturals, NumberRange, Choices, Text>;

inline constexpr Named<bool> kOnOff[] = {{"on", true}, {"off", false}};
/// From 0 to below 1: a probability, a decay.
inline constexpr NumberRange kFraction = {.low = 0, .high = 1, .below_high = true};
/// Texts of a type that converts itself: `parse`, which throws Error, and `text`.
template <class Type>
constexpr Text parsed() {
  return {[](std::string_view text) { return Type::parse(text).text(); }};
}

/// Converts the text that was given for the setting `name`. Throws SettingError.
nlohmann::json parse_value(std::string_view name, const Takes& takes, std::string_view text);
/// The value of a setting as on the command line: texts without quotation marks.
std::string setting_text(const nlohmann::json& value);

class Given;

/// Default of a setting: a value, or a rule by which it follows from other settings.
struct Default {
  using Rule = std::function<nlohmann::json(const Given& values)>;

  nlohmann::json value = {};  ///< null: none, or by the rule
  std::string words = {};     ///< the rule in words: "heads / 2"
  Rule rule = {};             ///< may throw ShapeError; null: whoever reads the setting decides

  Default() = default;
  template <class Value>
  requires(!std::same_as<std::remove_cvref_t<Value>, Default>) Default(const Value& v) : value(v) {}
  Default(std::string in_words, Rule in_code)
      : words(std::move(in_words)), rule(std::move(in_code)) {}
};
/// The value of another setting.
Default same_as(const std::string& name);
/// A value that other owners of the setting do not have, so that help says whose it is.
Default of_owner(const nlohmann::json& value);

/// Condition under which a setting has an effect: another setting has this value or, with `not_`,
/// any other one.
struct OnlyWhere {
  std::string_view setting, value;
  std::string_view otherwise;  ///< effect of the other value: "rotates nothing"
  bool not_ = false;
};

/// Properties of a setting that most settings do not have.
struct Traits {
  bool bare = false;                  ///< the name alone means "on"
  bool quiet = false;                 ///< configurations do not list it while it has its default
  std::optional<Scope> scope = {};    ///< default: that of its list
  std::string_view never_swept = {};  ///< why a comparison cannot try several values, if it cannot
  std::optional<OnlyWhere> only_where = {};
  std::string_view formerly = {};  ///< name in earlier versions, which their configurations have
  /// Splits a text that gives several settings, this one among them: `attention` gqa2 stands for
  /// `attention` gqa and `kv-heads` 2. Null: a text gives this setting only.
  nlohmann::ordered_json (*stands_for)(std::string_view text) = nullptr;
};

/// One setting: a flag on the command line, a key in config.json.
struct Setting {
  std::string name;  ///< "kv-heads"
  std::string help;  ///< what it does; `help_text` adds what follows here
  Takes takes;
  Default standard = {};
  Traits traits = {};
  /// Attentions, corpora or optimizers that have the setting, or all if `for_all`, with the
  /// defaults that it has for them; for others `standard`.
  std::vector<std::pair<std::string, Default>> owners = {};
  bool for_all = true;

  /// Returns true if the attention, corpus or optimizer `owner` has the setting.
  bool is_for(std::string_view owner) const;
  /// The default that the setting has for `owner`.
  const Default& standard_of(std::string_view owner) const;
  /// Names of the owners that have the setting; empty: all owners.
  std::vector<std::string> only_for() const;
  /// Converts the text that was given for the setting. Throws SettingError.
  nlohmann::json value(std::string_view text) const { return parse_value(name, takes, text); }
  /// The setting in `values` beside which this one has no effect, and why: "has no effect with
  /// `canon` off, which convolves nothing"; empty if there is none.
  std::string silenced_by(const nlohmann::ordered_json& values) const;
};

using SettingList = std::vector<Setting>;

/// The setting of that name, or null.
const Setting* find_setting(const SettingList& list, std::string_view name);
/// The settings, of which those without a scope get this one.
SettingList settings_in(Scope scope, SettingList settings);
/// Appends settings that only `owner` has; "": all owners have them. A setting that the list
/// already has gets a default for `owner`. Throws std::logic_error if the two accept different
/// values.
void add_settings(SettingList& list, const SettingList& more, std::string_view owner = "");
/// Joins lists in order.
SettingList together(const std::vector<SettingList>& lists);
/// What a setting does and its default: the help of its flag.
std::string help_text(const Setting& setting);

/// Explicit values of settings, by name: of flags, presets, config.json. Each is checked when it is
/// put in, and a later one replaces an earlier one. A setting that is absent has its default.
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
  /// The explicit value, or the default; null if there is none. Throws std::logic_error for
  /// a name that is no setting.
  nlohmann::json get(std::string_view name) const;

  // `get` as one type.

  Index whole(std::string_view name) const { return get(name).get<Index>(); }
  double number(std::string_view name) const { return get(name).get<double>(); }
  std::string text(std::string_view name) const { return get(name).get<std::string>(); }
  bool on(std::string_view name) const { return chosen(name, kOnOff); }
  /// The value that `table`, which has all choices of the setting, names.
  template <class Value, std::size_t count>
  Value chosen(std::string_view name, const Named<Value> (&table)[count]) const {
    const std::string choice = text(name);
    for (const auto& [choice_name, value] : table) {
      if (choice == choice_name) return value;
    }
    throw std::logic_error("`" + std::string(name) + "` has no value " + choice);
  }

  /// The explicit values.
  const nlohmann::ordered_json& values() const { return values_; }
  const SettingList& known() const { return *known_; }
  /// Attention, corpus or optimizer whose defaults these are; empty: none.
  const std::string& owner() const { return owner_; }

  /// The explicit values of the settings in `known`, with the defaults of `owner`. Rules of
  /// defaults may also read `facts`, which are no settings of `known`.
  Given of(const SettingList& known, std::string_view owner,
           const nlohmann::ordered_json& facts = nlohmann::ordered_json::object()) const;
  /// Values of these settings, name to value. Throws as rules of defaults do.
  nlohmann::ordered_json values_of(const SettingList& settings) const;

 private:
  const SettingList* known_;
  std::string owner_;
  nlohmann::ordered_json values_ = nlohmann::ordered_json::object();
};

// A struct of settings says in one place what its members are called, do, accept and have by
// default: its `void visit(const auto& setting)` calls
// `setting(member, {"name", "help", ...})` for each member, with the names of the values behind if
// it is an enumeration, and `setting({...})` for a setting that is read elsewhere.

/// Visitor that appends the settings to `all`.
struct ListSettings {
  SettingList& all;

  void operator()(const Setting& setting) const { all.push_back(setting); }
  void operator()(const auto&, const Setting& setting, const auto&...) const {
    all.push_back(setting);
  }
};
/// Visitor that sets each member to the value of its setting.
struct ReadMembers {
  const Given& given;

  void operator()(const Setting&) const {}
  template <class Value>
  void operator()(Value& member, const Setting& setting) const {
    if constexpr (std::same_as<Value, bool>) {
      member = given.on(setting.name);
    } else if constexpr (requires { Value::parse(std::string_view()); }) {
      member = Value::parse(given.text(setting.name));
    } else {
      member = given.get(setting.name).get<Value>();
    }
  }
  template <class Value, std::size_t count>
  void operator()(Value& member, const Setting& setting, const Named<Value> (&names)[count]) const {
    member = given.chosen(setting.name, names);
  }
};

/// The settings of a struct of settings, in its order.
template <class Struct>
SettingList settings_of() {
  SettingList all;
  Struct().visit(ListSettings{all});
  return all;
}
/// The struct with the values that its settings have in `given`.
template <class Struct>
Struct read(const Given& given) {
  Struct values;
  values.visit(ReadMembers{given});
  return values;
}

}  // namespace headcount
