#include "autograd/base/settings.h"

#include <utf8.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/json.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

// Converts the text that was given for the setting `name`.
struct ValueOf {
  std::string name;
  std::string_view text;

  nlohmann::json operator()(const WholeRange& range) const {
    const int shift = text.ends_with('M')                          ? 20
                      : text.ends_with('k') || text.ends_with('K') ? 10
                                                                   : 0;
    Index number = 0;
    const std::errc error = parse_number(text.substr(0, text.size() - (shift > 0)), number);
    if (error == std::errc::invalid_argument)
      throw SettingError("{} must be a whole number, such as 12 or 4k (4096), is {}", name,
                         quoted(text));
    if (error != std::errc{} || number > (range.high >> shift) || number < (range.low >> shift) ||
        (number << shift) < range.low)
      throw SettingError("{} must be between {} and {}, is {}", name, range.low, range.high,
                         shortened(text));
    return number << shift;
  }
  nlohmann::json operator()(const Naturals&) const {
    std::uint64_t number = 0;
    if (parse_number(text, number) != std::errc{})
      throw SettingError("{} must be a whole number from 0 to 2^64 - 1, is {}", name, quoted(text));
    return number;
  }
  nlohmann::json operator()(const NumberRange& range) const {
    constexpr double kLeast = 1.2e-38;  // least positive float of full precision
    double number = 0;
    const std::errc error = parse_number(text, number);
    if (error == std::errc::invalid_argument)
      throw SettingError("{} must be a number, is {}", name, quoted(text));
    if (number == 0 ? error != std::errc{} : std::abs(number) < kLeast)
      throw SettingError("{} must be 0 or at least {}: {} is too small for single precision", name,
                         shortest_text(kLeast), shortened(text));
    if (error != std::errc{} || number < range.low || number > range.high ||
        (range.below_high && number == range.high)) {
      const bool bounded = range.high < std::numeric_limits<double>::max();
      throw SettingError(
          "{} must be at least {}{}, is {}", name, shortest_text(range.low),
          bounded ? (range.below_high ? " and below " : " and at most ") + shortest_text(range.high)
                  : "",
          shortened(text));
    }
    return number;
  }
  nlohmann::json operator()(const Choices& choices) const {
    if (std::ranges::find(choices.names, text) == choices.names.end()) {
      throw SettingError("{} must be one of {}, is {}", name, joined(choices.names), quoted(text));
    }
    return text;
  }
  nlohmann::json operator()(const Text& takes) const {
    if (text.find('\0') != text.npos)
      throw SettingError("{} is {}, with a NUL byte, which ends texts and paths", name,
                         quoted(text));
    if (takes.shortest == nullptr) {
      if (!utf8::is_valid(text)) throw SettingError("{} must be UTF-8", name);
      return text;
    }
    try {
      return takes.shortest(text);
    } catch (const SettingError&) {  // names the setting already
      throw;
    } catch (const Error& error) {
      throw SettingError("{}: {}", name, error.what());
    }
  }
};

}  // namespace

nlohmann::json parse_value(std::string_view name, const Takes& takes, std::string_view text) {
  return std::visit(ValueOf{"`" + std::string(name) + "`", text}, takes);
}

std::string setting_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

Default same_as(const std::string& name) {
  return {name, [name](const Given& values) { return values.get(name); }};
}

Default of_owner(const nlohmann::json& value) {
  return {setting_text(value), [value](const Given&) { return value; }};
}

bool Setting::is_for(std::string_view owner) const {
  return for_all || std::ranges::count(owners, owner, &std::pair<std::string, Default>::first) > 0;
}

const Default& Setting::standard_of(std::string_view owner) const {
  const auto found = std::ranges::find(owners, owner, &std::pair<std::string, Default>::first);
  return found == owners.end() ? standard : found->second;
}

std::vector<std::string> Setting::only_for() const {
  std::vector<std::string> names;
  for (const auto& [owner, own] : owners) {
    if (!for_all) names.push_back(owner);
  }
  return names;
}

std::string Setting::silenced_by(const nlohmann::ordered_json& values) const {
  const std::optional<OnlyWhere>& where = traits.only_where;
  if (!where || !values.contains(where->setting)) return "";
  const std::string other(where->setting), value = setting_text(values.at(other));
  if ((value == where->value) != where->not_) return "";
  return "has no effect with `" + other + "` " + value + ", which " + std::string(where->otherwise);
}

const Setting* find_setting(const SettingList& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &Setting::name);
  return found == list.end() ? nullptr : &*found;
}

SettingList settings_in(Scope scope, SettingList settings) {
  for (Setting& each : settings) each.traits.scope = each.traits.scope.value_or(scope);
  return settings;
}

void add_settings(SettingList& list, const SettingList& more, std::string_view owner) {
  for (const Setting& setting : more) {
    auto same = std::ranges::find(list, setting.name, &Setting::name);
    if (same == list.end()) {
      same = list.insert(same, setting);
      same->for_all = setting.for_all && owner.empty();
    } else if (same->takes != setting.takes) {
      throw std::logic_error("two settings `" + setting.name + "` accept different values");
    } else if (owner.empty()) {
      same->for_all = true;
    }
    if (!owner.empty()) same->owners.emplace_back(owner, setting.standard);
  }
}

SettingList together(const std::vector<SettingList>& lists) {
  SettingList all;
  for (const SettingList& list : lists) add_settings(all, list);
  return all;
}

std::string help_text(const Setting& setting) {
  std::string text = setting.help;
  if (const auto* const choices = std::get_if<Choices>(&setting.takes))
    text += " (" + joined(choices->names) + ")";
  std::vector<std::pair<std::string, std::vector<std::string>>> defaults;  // words and owners
  if (setting.for_all) defaults.push_back({setting.standard.words, {}});
  for (const auto& [owner, standard] : setting.owners) {
    auto same = std::ranges::find(defaults, standard.words, &decltype(defaults)::value_type::first);
    if (same == defaults.end()) same = defaults.insert(same, {standard.words, {}});
    if (!setting.for_all || same != defaults.begin()) same->second.push_back(owner);
  }
  std::erase_if(defaults, [](const auto& each) { return each.first.empty(); });
  // First the one that most owners have, or all others, which are not named.
  std::ranges::stable_sort(defaults, [](const auto& a, const auto& b) {
    return !b.second.empty() && (a.second.empty() || a.second.size() > b.second.size());
  });
  std::string others;
  for (const auto& [words, owners] : defaults) {
    if (&words != &defaults.front().first)
      others += (others.empty() ? " (" : "; ") + words + " with " + joined(owners);
  }
  if (!defaults.empty())
    text += " [" + defaults.front().first + others + (others.empty() ? "]" : ")]");
  const bool has_value = !setting.standard.value.is_null() && !setting.traits.bare;
  return has_value ? text + " [" + setting_text(setting.standard.value) + "]" : text;
}

void Given::put(const std::string& name, const nlohmann::json& value) {
  const Setting* const setting = find_setting(*known_, name);
  if (setting == nullptr) throw SettingError("{} is not a setting", headcount::quoted(name));
  if (std::holds_alternative<Text>(setting->takes) && !value.is_string() && !value.is_number())
    throw SettingError("`{}` must be a text, is {}", name, shortened(json_text(value)));
  const std::string text = setting_text(value);
  if (setting->traits.stands_for == nullptr) {
    values_[name] = setting->value(text);
    return;
  }
  const auto parts = setting->traits.stands_for(text);
  for (const auto& [part, part_value] : parts.items()) {
    if (find_setting(*known_, part) == nullptr)
      throw SettingError("`{}` {} sets `{}`, which is fixed here", name, text, part);
    values_[part] = part_value;
  }
}

void Given::put(const nlohmann::json& object) {
  if (!object.is_object()) throw SettingError("a configuration must be a JSON object");
  for (const auto& [name, value] : object.items()) put(name, value);
}

void Given::put_known(const nlohmann::ordered_json& others) {
  for (const auto& [name, value] : others.items()) {
    if (find_setting(*known_, name) != nullptr) put(name, value);
  }
}

nlohmann::json Given::get(std::string_view name) const {
  if (const auto value = values_.find(name); value != values_.end()) return *value;
  const Setting* const setting = find_setting(*known_, name);
  if (setting == nullptr || !(owner_.empty() || setting->is_for(owner_)))
    throw std::logic_error("`" + std::string(name) + "` is no setting of " + owner_);
  const Default& standard = setting->standard_of(owner_);
  return standard.rule ? standard.rule(*this) : standard.value;
}

Given Given::of(const SettingList& known, std::string_view owner,
                const nlohmann::ordered_json& facts) const {
  Given given(known);
  given.owner_ = owner;
  given.values_ = facts;
  for (const auto& [name, value] : values_.items()) {
    if (find_setting(known, name) != nullptr) given.values_[name] = value;
  }
  return given;
}

nlohmann::ordered_json Given::values_of(const SettingList& settings) const {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Setting& setting : settings) all[setting.name] = get(setting.name);
  return all;
}

}  // namespace headcount
