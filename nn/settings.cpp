#include "nn/settings.h"

#include <utf8.h>

#include <algorithm>
#include <charconv>
#include <locale>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace headcount {

namespace {

// The whole of `text` as a whole number; says whether it is one and whether it fits.
template <class Number>
std::errc parse_integer(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end != text.data() + text.size()) return std::errc::invalid_argument;
  return error;
}

std::string plain(double value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr};
}

}  // namespace

std::errc parse_number(std::string_view text, double& number) {
  if (text == "inf" || text == "-inf") return std::errc::result_out_of_range;
  if (text.starts_with('+') || text.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
    return std::errc::invalid_argument;
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  stream >> number;
  if (!stream.eof()) return std::errc::invalid_argument;
  if (!stream.fail()) return {};
  // A stream leaves 0 of what is no number, and the largest number of what is too large.
  return number == 0 ? std::errc::invalid_argument : std::errc::result_out_of_range;
}

nlohmann::json parse_json(std::string_view text) {
  constexpr int kDeepest = 32;  // printing a value recurses
  const auto refuse_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kDeepest)
      throw DataError("not valid JSON: nested more than " + std::to_string(kDeepest) + " deep");
    return true;
  };
  try {
    return nlohmann::json::parse(text, refuse_depth);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("not valid JSON: " + std::string(error.what()));
  }
}

void refuse(const std::string& key, const nlohmann::json& value, const std::string& why) {
  throw DataError("'" + key + "' is " + value.dump() + ", but " + why);
}

std::string quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f) {
      result += c;
    } else {
      constexpr std::string_view kDigits = "0123456789abcdef";
      result += {'\\', 'x', kDigits[code / 16], kDigits[code % 16]};
    }
  }
  return result + "'";
}

Index whole_number(const nlohmann::json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) throw DataError("'" + key + "' is missing");
  // Numbers that were parsed are unsigned where they can be, others are as they were put there.
  const bool whole =
      found->is_number_unsigned()
          ? found->get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<Index>::max()}
          : found->is_number_integer() && found->get<Index>() >= 0;
  if (!whole) throw DataError("'" + key + "' must be a whole number, is " + found->dump());
  return found->get<Index>();
}

std::vector<std::string_view> split_text(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string setting_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_set(const nlohmann::json& value) {
  // An unsigned number is never unset, though the largest one compares equal to -1.
  return !value.is_null() && (value.is_number_unsigned() || value != kUnset);
}

bool Setting::is_for(std::string_view name_of_one) const {
  return only_for.empty() || std::ranges::find(only_for, name_of_one) != only_for.end();
}

void Settings::integer(std::string name, std::string help, Index& field, Index low, Index high) {
  custom(
      name, std::move(help),
      [name, low, high, &field](std::string_view text) {
        Index number = 0;
        const std::errc error = parse_integer(text, number);
        if (error == std::errc::invalid_argument) {
          throw SettingError("`" + name + "` wants a whole number, got " + quoted(text));
        }
        if (error != std::errc{} || number < low || number > high) {
          throw SettingError("`" + name + "` must be between " + std::to_string(low) + " and " +
                             std::to_string(high) + ", is " + std::string(text));
        }
        field = number;
      },
      [&field] { return nlohmann::json(field); });
}

void Settings::token_count(std::string name, std::string help, Index& field, Index low,
                           Index high) {
  integer(std::move(name), std::move(help) + " (1k is 1024, 1M is 1024k)", field, low, high);
  const auto digits = [](std::string_view text) {
    const Index unit = text.ends_with('M')                          ? Index{1} << 20
                       : text.ends_with('k') || text.ends_with('K') ? Index{1} << 10
                                                                    : 1;
    std::int32_t count = 0;
    if (unit == 1 || parse_integer(text.substr(0, text.size() - 1), count) != std::errc{})
      return std::string(text);
    return std::to_string(count * unit);
  };
  settings_.back().parse = [digits, parse = settings_.back().parse](std::string_view text) {
    parse(digits(text));
  };
}

void Settings::unsigned_integer(std::string name, std::string help, std::uint64_t& field) {
  custom(
      name, std::move(help),
      [name, &field](std::string_view text) {
        std::uint64_t number = 0;
        if (parse_integer(text, number) != std::errc{}) {
          throw SettingError("`" + name + "` wants a whole number from 0 to 2^64 - 1, got " +
                             quoted(text));
        }
        field = number;
      },
      [&field] { return nlohmann::json(field); });
}

void Settings::number(std::string name, std::string help, double& field, double low, double high,
                      bool open) {
  custom(
      name, std::move(help),
      [name, low, high, open, &field](std::string_view text) {
        double number = 0;
        const std::errc error = parse_number(text, number);
        if (error == std::errc::invalid_argument) {
          throw SettingError("`" + name + "` wants a number, got " + quoted(text));
        }
        if (error != std::errc{} || number < low || number > high || (open && number == high)) {
          const bool bounded = high < std::numeric_limits<double>::max();
          throw SettingError(
              "`" + name + "` must be at least " + plain(low) +
              (bounded ? (open ? " and below " : " and at most ") + plain(high) : "") + ", is " +
              std::string(text));
        }
        field = number;
      },
      [&field] { return nlohmann::json(field); });
}

void Settings::on_off(std::string name, std::string help, bool& field) {
  choice<bool>(std::move(name), std::move(help), field, {{"on", true}, {"off", false}});
}

void Settings::flag(std::string name, std::string help, bool& field) {
  on_off(std::move(name), std::move(help), field);
  settings_.back().bare = true;
}

void Settings::text(std::string name, std::string help, std::string& field) {
  custom(
      name, std::move(help),
      [name, &field](std::string_view text) {
        if (!utf8::is_valid(text)) throw SettingError("`" + name + "` must be UTF-8");
        field = text;
      },
      [&field] { return nlohmann::json(field); });
}

void Settings::custom(std::string name, std::string help,
                      std::function<void(std::string_view)> parse,
                      std::function<nlohmann::json()> value) {
  settings_.push_back({std::move(name), heading_, std::move(help), only_for_, std::move(parse),
                       std::move(value), false});
}

void Settings::choice_of(std::string name, std::string help, std::vector<std::string> names,
                         std::function<void(std::size_t)> set, std::function<std::size_t()> place) {
  const std::string known = joined(names);
  custom(
      name, help + " (" + known + ")",
      [name, known, names, set = std::move(set)](std::string_view text) {
        const auto found = std::ranges::find(names, text);
        if (found == names.end())
          throw SettingError("`" + name + "` must be one of " + known + ", is " + quoted(text));
        set(static_cast<std::size_t>(found - names.begin()));
      },
      [names, place = std::move(place)]() -> nlohmann::json {
        const std::size_t i = place();
        return i < names.size() ? nlohmann::json(names[i]) : nlohmann::json(nullptr);
      });
}

void Settings::add(Setting setting, std::function<bool()> in_use) {
  const auto same = std::ranges::find(settings_, setting.name, &Setting::name);
  if (same == settings_.end()) return settings_.push_back(std::move(setting));
  if (!same->only_for.empty())  // otherwise it is for all already
    same->only_for.insert(same->only_for.end(), setting.only_for.begin(), setting.only_for.end());
  if (same->help.find(setting.help) == std::string::npos)
    same->help += "; " + joined(setting.only_for) + ": " + setting.help;
  same->parse = [first = same->parse, second = setting.parse](std::string_view text) {
    first(text);
    second(text);
  };
  same->value = [other = same->value, own = setting.value, in_use = std::move(in_use)] {
    return in_use() ? own() : other();
  };
}

Settings Settings::read_only() const {
  Settings copy = *this;
  for (Setting& setting : copy.settings_) {
    setting.parse = [](std::string_view) {
      throw std::logic_error("these settings are only to be read");
    };
  }
  return copy;
}

const Setting* Settings::find(std::string_view name) const {
  for (const Setting& setting : settings_) {
    if (setting.name == name) return &setting;
  }
  return nullptr;
}

nlohmann::ordered_json Settings::values() const {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const Setting& setting : settings_) object[setting.name] = setting.value();
  return object;
}

void Settings::read(const nlohmann::json& object) {
  if (!object.is_object()) throw SettingError("a configuration must be a JSON object");
  for (const auto& [key, value] : object.items()) {
    const Setting* setting = find(key);
    if (setting == nullptr) throw SettingError("'" + key + "' is not a setting");
    setting->parse(setting_text(value));
  }
}

}  // namespace headcount
