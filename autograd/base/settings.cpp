#include "autograd/base/settings.h"

#include <utf8.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "autograd/base/text.h"

namespace headcount {

namespace {

// Reads a whole number that takes up all of `text`.
template <class Number>
std::errc parse_integer(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end != text.data() + text.size()) return std::errc::invalid_argument;
  return error;
}

// A number of tokens in units of 1024 or 1024^2 as digits; any other text as it is.
std::string without_unit(std::string_view text) {
  const Index unit = text.ends_with('M')                          ? Index{1} << 20
                     : text.ends_with('k') || text.ends_with('K') ? Index{1} << 10
                                                                  : 1;
  std::int32_t count = 0;
  if (unit == 1 || parse_integer(text.substr(0, text.size() - 1), count) != std::errc{})
    return std::string(text);
  return std::to_string(count * unit);
}

// Converts the text that was given for the setting `name`.
struct ValueOf {
  std::string name;
  std::string_view text;

  nlohmann::json operator()(const WholeRange& range) const {
    const std::string digits = range.tokens ? without_unit(text) : std::string(text);
    Index number = 0;
    const std::errc error = parse_integer(std::string_view(digits), number);
    if (error == std::errc::invalid_argument)
      throw SettingError(name, " must be a whole number, is ", quoted(text));
    if (error != std::errc{} || number < range.low || number > range.high) {
      throw SettingError(name, " must be between ", range.low, " and ", range.high, ", is ",
                         digits);
    }
    return number;
  }
  nlohmann::json operator()(const Naturals&) const {
    std::uint64_t number = 0;
    if (parse_integer(text, number) != std::errc{})
      throw SettingError(name, " must be a whole number from 0 to 2^64 - 1, is ", quoted(text));
    return number;
  }
  nlohmann::json operator()(const NumberRange& range) const {
    double number = 0;
    const std::errc error = parse_number(text, number);
    if (error == std::errc::invalid_argument)
      throw SettingError(name, " must be a number, is ", quoted(text));
    if (error != std::errc{} || number < range.low || number > range.high ||
        (range.open && number == range.high)) {
      const bool bounded = range.high < std::numeric_limits<double>::max();
      throw SettingError(
          name, " must be at least ", shortest_text(range.low),
          bounded ? (range.open ? " and below " : " and at most ") + shortest_text(range.high) : "",
          ", is ", text);
    }
    return number;
  }
  nlohmann::json operator()(const Choices& choices) const {
    if (std::ranges::find(choices.names, text) == choices.names.end()) {
      throw SettingError(name, " must be one of ", joined(choices.names), ", is ", quoted(text));
    }
    return text;
  }
  nlohmann::json operator()(const Text& takes) const {
    if (takes.shortest == nullptr) {
      if (!utf8::is_valid(text)) throw SettingError(name, " must be UTF-8");
      return text;
    }
    try {
      return takes.shortest(text);
    } catch (const SettingError&) {  // names the setting already
      throw;
    } catch (const Error& error) {
      throw SettingError(name, ": ", error.what());
    }
  }
};

}  // namespace

nlohmann::json parse_value(std::string_view name, const Takes& takes, std::string_view text) {
  return std::visit(ValueOf{"`" + std::string(name) + "`", text}, takes);
}

std::string setting_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Default same_as(const std::string& name) {
  return {name, [name](const Given& values) { return values.get(name); }};
}

Default of_owner(const nlohmann::json& value) {
  return {setting_text(value), [value](const Given&) { return value; }};
}

bool Setting::is_for(std::string_view owner) const {
  return only_for.empty() || std::ranges::find(only_for, owner) != only_for.end();
}

const Setting& Setting::of(std::string_view owner) const {
  const auto row = std::ranges::find_if(
      others, [&](const Setting& other) { return other.only_for.front() == owner; });
  return row == others.end() ? *this : *row;
}

std::optional<std::string> Setting::silenced_by(const nlohmann::ordered_json& values) const {
  const std::optional<OnlyWhere>& where = traits.only_where;
  if (!where || !values.contains(where->setting)) return std::nullopt;
  std::string other = setting_text(values.at(std::string(where->setting)));
  if ((other == where->value) != where->not_) return std::nullopt;
  return other;
}

const Setting* find_setting(const SettingList& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &Setting::name);
  return found == list.end() ? nullptr : &*found;
}

SettingList settings_in(Scope scope, SettingList rows) {
  for (Setting& row : rows) row.traits.scope = row.traits.scope.value_or(scope);
  return rows;
}

void add_settings(SettingList& list, const SettingList& more, std::string_view owner) {
  for (Setting row : more) {
    if (!owner.empty()) row.only_for = {std::string(owner)};
    const auto same = std::ranges::find(list, row.name, &Setting::name);
    if (same == list.end()) {
      list.push_back(std::move(row));
      continue;
    }
    if (same->takes != row.takes)
      throw std::logic_error("two settings `" + row.name + "` accept different values");
    if (owner.empty()) {
      same->only_for.clear();
      continue;
    }
    if (!same->only_for.empty()) same->only_for.emplace_back(owner);
    same->others.push_back(std::move(row));
  }
}

SettingList together(const std::vector<SettingList>& lists) {
  SettingList all;
  for (const SettingList& list : lists) add_settings(all, list);
  return all;
}

namespace {

// Words and the owners of whose setting they are true; no owner: all others.
using WordsOf = std::vector<std::pair<std::string, std::vector<std::string>>>;

// Groups the owners of a setting by their words; rows without words are left out.
WordsOf group(const Setting& setting, const std::function<std::string(const Setting&)>& words_of) {
  WordsOf groups;
  const auto add = [&](const Setting& row, const std::vector<std::string>& owners) {
    const std::string words = words_of(row);
    if (words.empty()) return;
    auto same = std::ranges::find(groups, words, &WordsOf::value_type::first);
    if (same == groups.end()) same = groups.insert(same, {words, {}});
    same->second.insert(same->second.end(), owners.begin(), owners.end());
  };
  // Owners that have no row of their own have that of the setting.
  std::vector<std::string> first = setting.only_for;
  for (const Setting& row : setting.others) std::erase(first, row.only_for.front());
  add(setting, first);
  for (const Setting& row : setting.others) add(row, row.only_for);
  return groups;
}

}  // namespace

std::string help_text(const Setting& setting) {
  std::string text = setting.help;
  for (const auto& [help, owners] : group(setting, [](const Setting& row) { return row.help; })) {
    if (help != setting.help) text += "; " + joined(owners) + ": " + help;
  }
  if (const auto* const choices = std::get_if<Choices>(&setting.takes))
    text += " (" + joined(choices->names) + ")";
  const auto* const range = std::get_if<WholeRange>(&setting.takes);
  if (range != nullptr && range->tokens) text += " (1k is 1024, 1M is 1024k)";
  WordsOf defaults = group(setting, [](const Setting& row) { return row.standard.words; });
  if (!defaults.empty()) {
    // First the one that most owners have, which are not named.
    std::ranges::stable_sort(defaults, [](const auto& a, const auto& b) {
      return !b.second.empty() && (a.second.empty() || a.second.size() > b.second.size());
    });
    std::string others;
    for (std::size_t i = 1; i < defaults.size(); ++i) {
      others += (i == 1 ? "" : "; ") + defaults[i].first + " with " + joined(defaults[i].second);
    }
    text += "; default " + defaults.front().first + (others.empty() ? "" : " (" + others + ")");
  }
  const bool shown = !setting.standard.value.is_null() && !setting.traits.bare;
  return shown ? text + " [" + setting_text(setting.standard.value) + "]" : text;
}

void Given::put(const std::string& name, const nlohmann::json& value) {
  const Setting* const setting = find_setting(*known_, name);
  if (setting == nullptr) throw SettingError("'", name, "' is not a setting");
  const std::string text = setting_text(value);
  if (setting->traits.stands_for == nullptr) {
    values_[name] = setting->value(text);
    return;
  }
  const auto parts = setting->traits.stands_for(text);
  for (const auto& [part, part_value] : parts.items()) {
    if (find_setting(*known_, part) == nullptr)
      throw SettingError("`", name, "` ", text, " sets `", part, "`, which is fixed here");
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
  const Default& standard = setting->of(owner_).standard;
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

nlohmann::ordered_json Given::values_of(const SettingList& rows) const {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const Setting& row : rows) all[row.name] = get(row.name);
  return all;
}

}  // namespace headcount
