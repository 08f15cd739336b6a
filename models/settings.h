#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
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

/// One setting of a configuration: a flag on the command line, a key in config.json. One table of
/// these serves flag parsing, help, reading and writing of configurations.
struct Setting {
  std::string name;   ///< "kv-heads"
  std::string group;  ///< heading in help
  std::string help;
  std::function<void(std::string_view)> parse;  ///< throws SettingError
  std::function<nlohmann::json()> value;
  bool bare = false;  ///< the name alone means "on"
};

/// The JSON in `text`. Throws DataError that says where it stops being JSON, and for what is nested
/// more deeply than any file of ours.
nlohmann::json parse_json(std::string_view text);

/// `text` between quotation marks, on one line: control characters as numbers.
std::string quoted(std::string_view text);

/// The whole number that `object` has under `key`. Throws DataError that names the key, for what is
/// no whole number from 0 on; nlohmann::json itself would convert 1e300 somehow.
Index whole_number(const nlohmann::json& object, const std::string& key);

/// The parts of `text` between separators: at least one, any of them may be empty.
std::vector<std::string_view> split(std::string_view text, char separator);

/// A list of settings bound to the fields of one configuration object, which must outlive it.
class Settings {
 public:
  /// Settings added from now on appear under this heading.
  void group(std::string heading) { heading_ = std::move(heading); }
  void integer(std::string name, std::string help, Index& field, Index low,
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

  /// A setting of another list, under its own heading; bound to what that one is bound to.
  void add(Setting setting) { settings_.push_back(std::move(setting)); }

  const std::vector<Setting>& all() const { return settings_; }
  /// Null if there is none of that name.
  const Setting* find(std::string_view name) const;
  /// All values, name to value.
  nlohmann::ordered_json values() const;
  /// Sets what `object` has; throws SettingError for a key that is no setting.
  void read(const nlohmann::json& object);

 private:
  std::string heading_;
  std::vector<Setting> settings_;
};

template <class Field>
void Settings::choice(std::string name, std::string help, Field& field,
                      std::vector<std::pair<std::string, Field>> choices) {
  std::string known;
  for (const auto& [text, value] : choices) known += (known.empty() ? "" : ", ") + text;
  custom(
      name, help + " (" + known + ")",
      [name, known, choices, &field](std::string_view text) {
        for (const auto& [choice_text, value] : choices) {
          if (choice_text != text) continue;
          field = value;
          return;
        }
        throw SettingError("--" + name + " must be one of " + known + ", is " + quoted(text));
      },
      [choices, &field]() -> nlohmann::json {
        for (const auto& [text, value] : choices) {
          if (value == field) return text;
        }
        return nullptr;
      });
}

}  // namespace headcount
