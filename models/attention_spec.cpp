#include "models/attention_spec.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "autograd/base/sha256.h"
#include "autograd/base/text.h"
#include "models/plan.h"

namespace headcount {

namespace {

constexpr std::string_view kShare = "share";
constexpr std::size_t kMostLayers = 10000;

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Forms of a kind's name, with the numbers of the default model: "gqa or gqa2 (`kv-heads` 2)".
std::string forms(const AttentionKind& kind) {
  const std::string name(kind.name);
  if (kind.numbers.front().empty()) return name;
  const nlohmann::ordered_json values =
      resolve_attention(kind, Given(attention_settings()), {}).values();
  std::string numbers, flags;
  for (const std::string_view number : kind.numbers) {
    if (number.empty()) continue;
    const std::string value = values.at(std::string(number)).dump();
    numbers += (numbers.empty() ? "" : "+") + value;
    flags += (flags.empty() ? "`" : " `") + std::string(number) + "` " + value;
  }
  return name + " or " + name + numbers + " (" + flags + ")";
}

// Word for `word`, which is no attention, with the nearest kind's name in its place: "gqa2" for
// "gpa2" and "GQA2". Empty if no name is near.
std::string nearest_word(std::string_view word) {
  std::string small(word);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::size_t end = std::min(small.find_first_of("0123456789@:"), small.size());
  std::vector<std::string> names;
  for (const AttentionKind* kind : attention_kinds()) {
    if (small.starts_with(kind->name)) return small == word ? "" : small;
    names.emplace_back(kind->name);
  }
  if (end < 2) return "";
  const std::string name = nearest(std::string_view(small).substr(0, end), names);
  return name.empty() ? "" : name + small.substr(end);
}

// What may be written instead of `word`, which is no attention.
std::string instead_of(std::string_view word) {
  if (word.empty()) return "a name is missing";
  if (word.find(',') != std::string_view::npos) return "it is a list; name one attention";
  if (const std::string near = nearest_word(word); !near.empty())
    return "did you mean " + near + "?";
  std::string known;
  for (const AttentionKind* kind : attention_kinds()) {
    if (word.starts_with(kind->name))
      return "write " + forms(*kind) +
             ", then xN for the width of heads, :NAME=VALUE for a setting and @N for a window, in "
             "this order";
    known += (known.empty() ? "known are " : ", ") + forms(*kind);
  }
  return known + "; " + std::string(kSpecGrammar);
}

// Cuts the last `mark` and what follows it off `text`, and returns what follows.
std::optional<std::string_view> cut_after(std::string_view& text, char mark) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view after = text.substr(at + 1);
  text = text.substr(0, at);
  return after;
}

// Shortest word for `kind` with `settings`; the same one in whatever order they were given.
std::string word_of(const AttentionKind& kind, nlohmann::ordered_json settings) {
  const auto take = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = settings.find(name);
    if (found == settings.end()) return std::nullopt;
    std::string value = setting_text(*found);
    settings.erase(found);
    return value;
  };
  std::string word(kind.name);
  std::string_view before;
  for (const std::string_view name : kind.numbers) {  // a number says what it is by its place
    const std::optional<std::string> value = take(name);
    if (!value) break;
    word.append(std::exchange(before, "+")).append(*value);
  }
  if (const auto width = take("head-dim")) word += "x" + *width;
  const std::optional<std::string> window = take("window");
  for (const Setting& setting : attention_settings()) {
    if (const auto value = take(setting.name)) word += ":" + setting.name + "=" + *value;
  }
  return window ? word + "@" + *window : word;
}

// Reads the text of the setting `name` into `spec`. Throws SettingError.
void give(LayerSpec& spec, std::string_view name, std::string_view text) {
  const Setting* const setting = find_setting(attention_settings(), name);
  if (setting == nullptr || !(spec.shares() || setting->is_for(spec.kind->name)))
    throw SettingError("{} is no setting of {}", headcount::quoted(name), spec.kind->name);
  if (spec.gives(name)) throw SettingError("`{}` is given twice", name);
  spec.settings[setting->name] = setting->value(text);
}

// Layer of `kind` with the settings in `rest`, the text after its name; nothing if `rest` does not
// have the kind's grammar.
std::optional<LayerSpec> with_numbers(const AttentionKind& kind, std::string_view rest) {
  const std::optional<std::string_view> window = cut_after(rest, '@');
  const std::vector<std::string_view> words = split_text(rest, ':');
  rest = words.front();
  const std::optional<std::string_view> width = cut_after(rest, 'x');
  const std::vector<std::string_view> numbers =
      rest.empty() ? std::vector<std::string_view>() : split_text(rest, '+');
  const auto most = std::ranges::find(kind.numbers, std::string_view()) - kind.numbers.begin();
  if (std::ssize(numbers) > most || !std::ranges::all_of(numbers, is_number) ||
      !is_number(width.value_or("0")) || !is_number(window.value_or("0")))
    return std::nullopt;
  LayerSpec spec{"", &kind};
  for (std::size_t i = 0; i < numbers.size(); ++i) give(spec, kind.numbers[i], numbers[i]);
  if (width) give(spec, "head-dim", *width);
  for (const std::string_view word : std::span(words).subspan(1)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos)
      throw SettingError("after : there must be NAME=VALUE, such as gate=on, not {}", quoted(word));
    give(spec, word.substr(0, equals), word.substr(equals + 1));
  }
  if (window) give(spec, "window", *window);
  spec.text = word_of(kind, spec.settings);
  return spec;
}

// Layer that shares, of a word that begins with share.
LayerSpec sharing(std::string_view word) {
  const std::optional<std::string_view> window = cut_after(word, '@');
  LayerSpec spec{std::string(word)};
  const auto known = std::ranges::find(kSharing, word, &Named<Shared>::first);
  if (known == std::end(kSharing) || (window && word != kShare) || !is_number(window.value_or("0")))
    throw SettingError(
        "share takes its sizes from the layer whose cache it reads; write share alone, share@N for "
        "the nearest layer with a window of N tokens, share-index, share-pooled or "
        "share-pooled-index");
  spec.shared = known->second;
  if (!window) return spec;
  give(spec, "window", *window);
  spec.text += "@" + spec.settings["window"].dump();
  return spec;
}

// Parses one word; `where` names the pattern that it is part of.
LayerSpec parse_layer(std::string_view word, const std::string& where) {
  try {
    if (word.starts_with(kShare)) return sharing(word);
    for (const AttentionKind* kind : attention_kinds()) {
      if (!word.starts_with(kind->name)) continue;
      if (auto spec = with_numbers(*kind, word.substr(kind->name.size()))) return *std::move(spec);
    }
  } catch (const SettingError& error) {
    throw SettingError("{}{}: {}", quoted(word), where, error.what());
  }
  throw SettingError("{}{} is no attention; {}", quoted(word), where, instead_of(word));
}

// Cuts "5*" off `part` and returns the 5; 1 without it.
std::size_t take_count(std::string_view& part, const std::string& where) {
  const std::size_t star = part.find('*');
  if (star == std::string_view::npos || !is_number(part.substr(0, star))) return 1;
  std::size_t count = 0;
  if (parse_number(part.substr(0, star), count) != std::errc() || count == 0 || count > kMostLayers)
    throw SettingError("{}{} repeats {} times; a part can be repeated 1 to {} times", quoted(part),
                       where, part.substr(0, star), kMostLayers);
  part = part.substr(star + 1);
  return count;
}

// Shortens `cycle` to the shortest one that gives the same layers.
void shorten(std::vector<LayerSpec>& cycle) {
  for (std::size_t length = 1; length < cycle.size(); ++length) {
    if (cycle.size() % length == 0 &&
        std::ranges::equal(std::span(cycle).subspan(length),
                           std::span(cycle).first(cycle.size() - length)))
      cycle.resize(length);
  }
}

// `spec` after `change` of each of its parts.
template <class Change>
std::string changed(std::string_view spec, const Change& change) {
  std::vector<LayerSpec> cycle = parse_attention_spec(spec).cycle;
  for (LayerSpec& part : cycle) {
    change(part);
    if (!part.shares()) part.text = word_of(*part.kind, part.settings);
  }
  return text_of(cycle);
}

}  // namespace

bool has_scores(std::span<const LayerSpec> cycle) {
  return std::ranges::any_of(
      cycle, [](const LayerSpec& part) { return !part.shares() && part.kind->attends; });
}

std::string text_of(std::span<const LayerSpec> cycle) {
  std::string text;
  for (std::size_t i = 0, next = 0; i < cycle.size(); i = next) {
    while (next < cycle.size() && cycle[next] == cycle[i]) ++next;
    text +=
        (i == 0 ? "" : "/") + (next - i == 1 ? "" : std::to_string(next - i) + "*") + cycle[i].text;
  }
  return text;
}

std::string attention_word(const AttentionPlan& layer) {
  constexpr std::string_view kOfModel[] = {"heads", "positions", "canon", "canon-taps"};
  for (const auto& [name, shared] : kSharing)
    if (layer.shared() == shared) return std::string(name);
  if (layer.shares()) return std::string(kShare);
  const AttentionKind& kind = layer.kind();
  const SettingList& known = attention_settings();
  const Given all = Given(known, layer.values()).of(known, kind.name, {{"dim", layer.dim}});
  const auto is_standard = [&](const std::string& name, const nlohmann::ordered_json& value) {
    Given others = all;
    others.erase(name);
    try {
      return others.get(name) == nlohmann::json(value);
    } catch (const ShapeError&) {  // no value follows
      return false;
    }
  };
  nlohmann::ordered_json settings;
  for (const auto& [name, value] : layer.values().items()) {
    const bool is_number = std::ranges::find(kind.numbers, name) != kind.numbers.end();
    const bool of_model = std::ranges::find(kOfModel, name) != std::end(kOfModel);
    if ((is_number && kind.attends) || !(of_model || is_standard(name, value)))
      settings[name] = value;
  }
  return word_of(kind, std::move(settings));
}

std::string file_name_of(std::string_view spec) {
  std::string name(spec);
  std::ranges::replace(name, '/', '_');
  std::ranges::replace(name, '*', 'x');
  // File systems allow 255 bytes, and callers add to the name.
  constexpr std::size_t kLongest = 100, kKept = 80, kDigits = 12;
  if (name.size() <= kLongest) return name;
  return name.substr(0, kKept) + "-" + sha256_hex(spec).substr(0, kDigits);
}

AttentionSpec parse_attention_spec(std::string_view text) {
  AttentionSpec spec{std::string(text), {}};
  const std::vector<std::string_view> parts = split_text(text, '/');
  const std::string where = parts.size() == 1 ? "" : " in " + quoted(text);
  for (std::string_view part : parts) {
    const std::size_t count = take_count(part, where);
    const LayerSpec layer = parse_layer(part, where);
    if (layer.shares() && spec.cycle.empty())
      throw SettingError(
          "{}{} comes first, but no earlier layer has a cache to share; begin with another part",
          quoted(part), where);
    if (spec.cycle.size() + count > kMostLayers)
      throw SettingError("{}{} is beyond the {} layers that a pattern can have", quoted(part),
                         where, kMostLayers);
    spec.cycle.insert(spec.cycle.end(), count, layer);
  }
  shorten(spec.cycle);
  return spec;
}

std::string without_windows(std::string_view spec) {
  return changed(spec, [&](LayerSpec& part) {
    if (part.shares() && part.gives("window"))
      throw SettingError("`window` cannot change: {} in {} names a layer by its window",
                         headcount::quoted(part.text), spec);
    part.settings.erase("window");
  });
}

std::string spec_with(std::string_view spec, const nlohmann::ordered_json& settings) {
  const bool beside_scores = has_scores(parse_attention_spec(spec).cycle);
  return changed(spec, [&](LayerSpec& part) {
    if (part.shares()) return;
    for (const auto& [name, value] : settings.items()) {
      const bool left = beside_scores && !part.kind->attends &&
                        std::ranges::find(kLeftToScores, name) != kLeftToScores.end();
      if (!left && !part.gives(name) &&
          find_setting(attention_settings(), name)->is_for(part.kind->name))
        part.settings[name] = value;
    }
  });
}

nlohmann::ordered_json settings_in_attention(std::string_view text) {
  const std::vector<LayerSpec> cycle =
      named_error<SettingError>("`attention`", [&] { return parse_attention_spec(text); }).cycle;
  if (cycle.size() > 1) return {{"attention", text_of(cycle)}};
  nlohmann::ordered_json all = {{"attention", cycle.front().kind->name}};
  all.update(cycle.front().settings);
  return all;
}

std::vector<AttentionSpec> parse_attention_specs(std::string_view list) {
  std::vector<AttentionSpec> specs;
  for (const std::string_view part : split_text(list, ',')) {
    specs.push_back(parse_attention_spec(part));
    const auto same = [&](const AttentionSpec& other) { return other.cycle == specs.back().cycle; };
    if (std::ranges::count_if(specs, same) > 1)
      throw SettingError("{} is in the list twice", quoted(part));
  }
  return specs;
}

}  // namespace headcount
