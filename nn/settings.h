#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/real.h"

namespace headcount {

/// A setting with an unusable value; the message names the setting and says what it takes.
class SettingError : public Error {
 public:
  using Error::Error;
};

/// A setting that was not given and gets its default from the others.
inline constexpr Index kUnset = -1;

/// The value of a setting as flags have it: texts without quotation marks.
std::string setting_text(const nlohmann::json& value);
/// Whether it is a value: not null and not kUnset, which stand for a default.
bool is_set(const nlohmann::json& value);

/// One setting of a configuration: a flag on the command line, a key in config.json. One table of
/// these serves flag parsing, help, reading and writing of configurations.
struct Setting {
  std::string name;   ///< "kv-heads"
  std::string group;  ///< heading in help
  std::string help;
  std::vector<std::string> only_for;  ///< the attentions or corpora that it is for; empty: all
  std::function<void(std::string_view)> parse;  ///< throws SettingError
  std::function<nlohmann::json()> value;
  bool bare = false;  ///< the name alone means "on"

  /// Whether it means something with the attention or corpus of that name.
  bool is_for(std::string_view name_of_one) const;
};

/// The JSON in `text`. Throws DataError that says where it stops being JSON, and for what is nested
/// more deeply than any file of ours.
nlohmann::json parse_json(std::string_view text);
/// Throws DataError: what `key` has in a file is of no use here, for the reason `why`.
[[noreturn]] void refuse(const std::string& key, const nlohmann::json& value,
                         const std::string& why);

/// The whole of `text` as a number; invalid_argument if it is none, result_out_of_range if it is
/// too large. Not every standard library has std::from_chars for it.
std::errc parse_number(std::string_view text, double& number);

/// `text` between quotation marks, on one line: control characters as numbers.
std::string quoted(std::string_view text);

/// The whole number that `object` has under `key`. Throws DataError that names the key, for what is
/// no whole number from 0 on; nlohmann::json itself would convert 1e300 somehow.
Index whole_number(const nlohmann::json& object, const std::string& key);

/// The names of `items` with commas between them.
template <class Items, class Name = std::identity>
std::string joined(const Items& items, Name name = {}) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += std::invoke(name, item);
  }
  return text;
}

/// The parts of `text` between separators: at least one, any of them may be empty.
std::vector<std::string_view> split_text(std::string_view text, char separator);

/// A list of settings bound to the fields of one configuration object, which must outlive it.
class Settings {
 public:
  /// Settings added from now on appear under this heading, and are for everything.
  void group(std::string heading) {
    heading_ = std::move(heading);
    only_for_.clear();
  }
  /// Settings added from now on mean something with this attention or corpus only; "": with all.
  void only_for(std::string name) {
    only_for_.clear();
    if (!name.empty()) only_for_.push_back(std::move(name));
  }
  void integer(std::string name, std::string help, Index& field, Index low,
               Index high = std::numeric_limits<std::int32_t>::max());
  /// An integer that may be given in units of 1024 or 1024^2, as context lengths are: 128k, 1M.
  void token_count(std::string name, std::string help, Index& field, Index low,
                   Index high = std::numeric_limits<std::int32_t>::max());
  void unsigned_integer(std::string name, std::string help, std::uint64_t& field);
  /// Low <= value <= high, or < high with `open`.
  void number(std::string name, std::string help, double& field, double low,
              double high = std::numeric_limits<double>::max(), bool open = false);
  void on_off(std::string name, std::string help, bool& field);
  /// On or off; on the command line the name alone switches it on.
  void flag(std::string name, std::string help, bool& field);
  void text(std::string name, std::string help, std::string& field);
  /// One of the given names; the field gets the value beside it.
  template <class Field>
  void choice(std::string name, std::string help, Field& field,
              std::vector<std::pair<std::string, Field>> choices);
  void custom(std::string name, std::string help, std::function<void(std::string_view)> parse,
              std::function<nlohmann::json()> value);

  /// A setting of another list, under its own heading; bound to what that one is bound to. Where
  /// there is one of that name, a text is parsed into both, and the value is this one's while
  /// `in_use` says so.
  void add(
      Setting setting, std::function<bool()> in_use = [] { return true; });
  /// The same settings, for reading values only: `parse` throws std::logic_error.
  Settings read_only() const;

  const std::vector<Setting>& all() const { return settings_; }
  /// Null if there is none of that name.
  const Setting* find(std::string_view name) const;
  /// All values, name to value.
  nlohmann::ordered_json values() const;
  /// Sets what `object` has; throws SettingError for a key that is no setting.
  void read(const nlohmann::json& object);

 private:
  // A choice by its place in `names`; `place` of a value that none of them names is out of range.
  void choice_of(std::string name, std::string help, std::vector<std::string> names,
                 std::function<void(std::size_t)> set, std::function<std::size_t()> place);

  std::string heading_;
  std::vector<std::string> only_for_;
  std::vector<Setting> settings_;
};

template <class Field>
void Settings::choice(std::string name, std::string help, Field& field,
                      std::vector<std::pair<std::string, Field>> choices) {
  std::vector<std::string> names;
  for (const auto& [text, value] : choices) names.push_back(text);
  choice_of(
      std::move(name), std::move(help), std::move(names),
      [choices, &field](std::size_t place) { field = choices[place].second; },
      [choices, &field] {
        std::size_t place = 0;
        while (place < choices.size() && !(choices[place].second == field)) ++place;
        return place;
      });
}

}  // namespace headcount
