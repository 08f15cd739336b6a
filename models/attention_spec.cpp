#include "models/attention_spec.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace headcount {

namespace {

// "mha, mqa, gqa or gqa2 (--kv-heads 2), ...", with the numbers of the default model.
std::string known_specs() {
  std::string known;
  for (const AttentionKind* kind : attention_kinds()) {
    known += (known.empty() ? "" : ", ") + std::string(kind->name);
    if (kind->spec_numbers == 0) continue;
    ModelConfig config;
    config.attention.kind = kind->name;
    config.resolve();
    const Settings settings = config.settings();
    std::string numbers, flags;
    const std::vector<std::string> names = own_settings(*kind);
    for (std::size_t i = 0; i < kind->spec_numbers; ++i) {
      const std::string value = settings.find(names[i])->value().dump();
      numbers += (numbers.empty() ? "" : "+") + value;
      flags += (flags.empty() ? "`" : " `") + names[i] + "` " + value;
    }
    known += " or " + std::string(kind->name) + numbers + " (" + flags + ")";
  }
  return known;
}

}  // namespace

void AttentionSpec::apply(ModelConfig& config) const {
  const Settings settings = config.settings();
  settings.find("attention")->parse(kind->name);
  for (const auto& [name, value] : numbers) settings.find(name)->parse(value);
}

AttentionSpec parse_attention_spec(std::string_view text) {
  const auto is_number = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  for (const AttentionKind* kind : attention_kinds()) {
    if (!text.starts_with(kind->name)) continue;
    AttentionSpec spec{std::string(text), kind, {}};
    const std::string_view rest = text.substr(kind->name.size());
    if (rest.empty()) return spec;
    const std::vector<std::string_view> numbers = split_text(rest, '+');
    if (numbers.size() > kind->spec_numbers || !std::ranges::all_of(numbers, is_number)) continue;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      spec.numbers.emplace_back(own_settings(*kind)[i], numbers[i]);
    ModelConfig scratch;  // numbers that are out of range are found here
    spec.apply(scratch);
    return spec;
  }
  throw SettingError("'" + std::string(text) + "' is no attention; known are " + known_specs());
}

std::vector<AttentionSpec> parse_attention_specs(std::string_view list) {
  std::vector<AttentionSpec> specs;
  for (const std::string_view part : split_text(list, ',')) {
    specs.push_back(parse_attention_spec(part));
    const auto same = [&](const AttentionSpec& other) { return other.text == part; };
    if (std::ranges::count_if(specs, same) > 1)
      throw SettingError("'" + std::string(part) + "' is in the list twice");
  }
  return specs;
}

}  // namespace headcount
