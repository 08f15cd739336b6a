#include "autograd/base/settings.h"

#include <utf8.h>

#include <algorithm>
#include <charconv>
#include <span>
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

// Converts the text that was given for the setting `name`.
struct ValueOf {
  std::string name;
  std::string_view text;

  nlohmann::json operator()(const WholeRange& range) const {
    Index number = 0;
    const std::errc error = parse_integer(text, number);
    if (error == std::errc::invalid_argument)
      throw SettingError(name, " must be a whole number, is ", quoted(text));
    if (error != std::errc{} || number < range.low || number > range.high) {
      throw SettingError(name, " must be between ", range.low, " and ", range.high, ", is ", text);
    }
    return number;
  }
  nlohmann::json operator()(const TokenRange& range) const {
    const Index unit = text.ends_with('M')                          ? Index{1} << 20
                       : text.ends_with('k') || text.ends_with('K') ? Index{1} << 10
                                                                    : 1;
    std::int32_t count = 0;
    if (unit == 1 || parse_integer(text.substr(0, text.size() - 1), count) != std::errc{})
      return (*this)(WholeRange{range.low, range.high});
    return ValueOf{name, std::to_string(count * unit)}(WholeRange{range.low, range.high});
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
    if (std::ranges::find(choices.list(), text, &Choice::name) == choices.list().end()) {
      throw SettingError(name, " must be one of ", joined(choices.list(), &Choice::name), ", is ",
                         quoted(text));
    }
    return text;
  }
  nlohmann::json operator()(const FreeText&) const {
    if (!utf8::is_valid(text)) throw SettingError(name, " must be UTF-8");
    return text;
  }
  nlohmann::json operator()(const Grammar& grammar) const {
    try {
      return grammar.check(text);
    } catch (const SettingError&) {  // names the setting already
      throw;
    } catch (const Error& error) {
      throw SettingError(name, ": ", error.what());
    }
  }
};

}  // namespace

bool Setting::is_for(std::string_view owner) const {
  return only_for.empty() || std::ranges::find(only_for, owner) != only_for.end();
}

std::optional<std::string> Setting::silenced_by(const nlohmann::ordered_json& values) const {
  if (!traits.only_where) return std::nullopt;
  const auto other = values.find(std::string(traits.only_where->setting));
  if (other == values.end()) return std::nullopt;
  std::string text = setting_text(*other);
  if (traits.only_where->holds(text)) return std::nullopt;
  return text;
}

nlohmann::json parse_value(std::string_view name, const Takes& takes, std::string_view text) {
  return std::visit(ValueOf{"`" + std::string(name) + "`", text}, takes);
}

const Setting* find_setting(const SettingList& list, std::string_view name) {
  const auto found = std::ranges::find(list, name, &Setting::name);
  return found == list.end() ? nullptr : &*found;
}

SettingList together(const std::vector<SettingList>& lists) {
  SettingList all;
  for (const SettingList& list : lists) add_settings(all, list);
  return all;
}

namespace {

void add_words(std::vector<WordsOf>& all, const std::string& words, std::string_view owner) {
  auto same = std::ranges::find(all, words, &WordsOf::words);
  if (same == all.end()) same = all.insert(same, WordsOf{words, {}});
  same->owners.emplace_back(owner);
}

}  // namespace

void add_settings(SettingList& list, SettingList more, std::string_view owner) {
  for (Setting& setting : more) {
    if (!owner.empty()) {
      setting.only_for = {std::string(owner)};
      for (WordsOf& words : setting.defaults) words.owners = setting.only_for;
    }
    const auto same = std::ranges::find(list, setting.name, &Setting::name);
    if (same == list.end()) {
      list.push_back(std::move(setting));
      continue;
    }
    if (same->takes != setting.takes)
      throw std::logic_error("two settings `" + setting.name + "` accept different values");
    if (owner.empty()) {
      same->only_for.clear();
    } else if (!same->only_for.empty()) {
      same->only_for.emplace_back(owner);
    }
    if (owner.empty()) continue;
    if (setting.help != same->help) add_words(same->other_help, setting.help, owner);
    for (const WordsOf& words : setting.defaults) add_words(same->defaults, words.words, owner);
  }
}

void add_default(SettingList& list, std::string_view name, const std::string& words,
                 std::string_view owner) {
  add_words(std::ranges::find(list, name, &Setting::name)->defaults, words, owner);
}

std::string help_text(const Setting& setting) {
  std::string text = setting.help;
  for (const WordsOf& other : setting.other_help)
    text += "; " + joined(other.owners) + ": " + other.words;
  if (const auto* const choices = std::get_if<Choices>(&setting.takes))
    text += " (" + joined(choices->list(), &Choice::name) + ")";
  if (std::holds_alternative<TokenRange>(setting.takes)) text += " (1k is 1024, 1M is 1024k)";
  if (!setting.defaults.empty()) {
    // First the one that most owners have, which are not named.
    std::vector<WordsOf> defaults = setting.defaults;
    std::ranges::stable_sort(defaults, [](const WordsOf& a, const WordsOf& b) {
      return !b.owners.empty() && (a.owners.empty() || a.owners.size() > b.owners.size());
    });
    std::string others;
    for (const WordsOf& other : std::span(defaults).subspan(1))
      others += (others.empty() ? "" : "; ") + other.words + " with " + joined(other.owners);
    text += "; default " + defaults.front().words + (others.empty() ? "" : " (" + others + ")");
  }
  const bool shown = !setting.neutral.is_null() && !setting.traits.bare;
  return shown ? text + " [" + setting_text(setting.neutral) + "]" : text;
}

Setting listed(std::string_view name, std::string_view help, const Takes& takes, Scope scope,
               const Traits& traits, const nlohmann::json& neutral) {
  Setting setting = {
      std::string(name), std::string(help), takes, traits.scope.value_or(scope), traits, neutral};
  if (!traits.derived.empty()) setting.defaults = {{std::string(traits.derived), {}}};
  return setting;
}

std::string setting_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void Given::put(const std::string& name, const nlohmann::json& value) {
  const Setting* const setting = find_setting(*known_, name);
  if (setting == nullptr) throw SettingError("'", name, "' is not a setting");
  const std::string text = setting_text(value);
  if (setting->stands_for == nullptr) {
    values_[name] = setting->value(text);
    return;
  }
  for (const auto& [part, part_text] : setting->stands_for(text)) {
    const Setting* const of_part = find_setting(*known_, part);
    if (of_part == nullptr)
      throw SettingError("`", name, "` ", text, " sets `", part, "`, which is fixed here");
    values_[part] = of_part->value(part_text);
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

namespace field_details {

int value_of(const Choices& choices, std::string_view name) {
  return std::ranges::find(choices.list(), name, &Choice::name)->value;
}

std::string_view name_of(const Choices& choices, int value) {
  const auto found = std::ranges::find(choices.list(), value, &Choice::value);
  if (found == choices.list().end()) throw std::logic_error("a choice without a name");
  return found->name;
}

}  // namespace field_details

}  // namespace headcount
