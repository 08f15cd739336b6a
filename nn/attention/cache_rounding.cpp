#include "nn/attention/cache_rounding.h"

#include <algorithm>

#include "autograd/base/settings.h"
#include "autograd/base/text.h"
#include "nn/attention/layer_cache.h"

namespace headcount {

namespace {

constexpr std::string_view kLayer = "layer";

bool names(std::string_view part, std::string_view name) {
  return name.starts_with(part) && (name.size() == part.size() || name[part.size()] == '_');
}

bool is_rounded(const Kept& kept) { return !kept.per_sequence && !kept.exact; }

CacheType type_named(std::string_view name) {
  for (const CacheTypeRow& row : cache_types()) {
    if (row.name == name) return row.type;
  }
  const bool is_gguf = name == "q8_0" || name == "q4_0";
  throw SettingError(
      "`cache-dtype` must be one of {}, or types of parts such as k=int4+v=int2, is {}{}",
      joined(cache_types(), &CacheTypeRow::name), quoted(name),
      is_gguf ? "; GGUF's q8_0 and q4_0 take the bytes of int8 and int4 with `cache-group` 32"
              : "");
}

constexpr Index kMostLayers = 10000;

// A number of a layer; 0 if it is none.
Index layer_named(std::string_view text) {
  Index number = 0;
  return parse_number(text, number) == std::errc() && number <= kMostLayers ? number : 0;
}

// Reads "layer1=bf16" or "layers3-4=int8".
void add_layers(std::string_view one, std::map<Index, CacheType>& layers) {
  const std::size_t equals = one.find('=');
  std::string_view range = one.substr(0, equals).substr(kLayer.size());
  if (range.starts_with('s')) range.remove_prefix(1);
  const std::vector<std::string_view> ends = split_text(range, '-');
  const Index first = layer_named(ends.front()), last = layer_named(ends.back());
  if (ends.size() > 2 || first == 0 || last < first)
    throw SettingError(
        "`cache-dtype` names layers, from 1, as in layer1=bf16 or layers3-4=int8, not as in {}",
        quoted(one));
  const CacheType type = type_named(one.substr(equals + 1));
  for (Index layer = first; layer <= last; ++layer) {
    if (!layers.emplace(layer, type).second)
      throw SettingError("`cache-dtype` gives layer {} two types; give it one", layer);
  }
}

}  // namespace

CacheRounding CacheRounding::parse(std::string_view text) {
  CacheRounding rounding;
  if (text.find(',') != text.npos) {
    std::string one(text);
    std::ranges::replace(one, ',', '+');
    const std::string first = parse(text.substr(0, text.find(','))).text();
    std::string how = "name one type, such as " + first;
    try {
      how = "a + joins types of parts of one cache: " + parse(one).text();
    } catch (const SettingError&) {  // they are types of several caches
    }
    throw SettingError("`cache-dtype` {} is a list, which only comparisons take; {}", quoted(text),
                       how);
  }
  if (take_each(text)) {
    rounding = parse(text);
    const std::vector<CacheRounding> list = rounding.each_exact(1);
    throw SettingError(
        "`cache-dtype` each:{} is a list, which only eval and comparisons take; name one of it, "
        "such as {}",
        text, (list.empty() ? rounding : list.front()).text());
  }
  const std::vector<std::string_view> all = split_text(text, '+');
  const auto is_of_layers = [](std::string_view one) {
    return one.starts_with(kLayer) && one.find('=') != one.npos;
  };
  const bool of_all =
      all.front().find('=') == text.npos && std::all_of(all.begin() + 1, all.end(), is_of_layers);
  if (of_all) rounding = type_named(all.front());
  for (const std::string_view one : std::span(all).subspan(of_all)) {
    if (is_of_layers(one)) {
      add_layers(one, rounding.layers);
      continue;
    }
    const std::size_t equals = one.find('=');
    if (equals == 0 || equals == one.npos)
      throw SettingError(
          "`cache-dtype` must be one type, or types of parts such as k=int4+v=int2; {} names no "
          "part",
          quoted(one));
    const std::string part(one.substr(0, equals));
    if (std::ranges::find(rounding.parts, part, &std::pair<std::string, CacheType>::first) !=
        rounding.parts.end())
      throw SettingError("`cache-dtype` names the part '{}' twice", part);
    rounding.parts.emplace_back(part, type_named(one.substr(equals + 1)));
  }
  if (!of_all && rounding.parts.empty())
    throw SettingError("`cache-dtype` {} names no type for other layers; begin with it: f32+{}",
                       text, text);
  return rounding;
}

std::string CacheRounding::text() const {
  std::string words;  // as `parse` reads them
  const auto add = [&](const std::string& name, CacheType type) {
    words += (words.empty() ? "" : "+") + name + std::string(row_of(type).name);
  };
  if (parts.empty()) add("", all.type);
  for (const auto& [part, type] : parts) add(part + "=", type);
  for (auto first = layers.begin(); first != layers.end();) {
    auto next = first;
    Index last = first->first;
    while (++next != layers.end() && next->first == last + 1 && next->second == first->second)
      ++last;
    const std::string from = std::to_string(first->first), to = std::to_string(last);
    add(std::string(kLayer) + (last == first->first ? from : "s" + from + "-" + to) + "=",
        first->second);
    first = next;
  }
  return words;
}

bool CacheRounding::take_each(std::string_view& text) {
  constexpr std::string_view kEach = "each:";
  const bool found = text.starts_with(kEach);
  if (found) text.remove_prefix(kEach.size());
  return found;
}

CacheRounding CacheRounding::of_layer(Index layer) const {
  CacheRounding one = *this;
  one.layers.clear();
  if (const auto found = layers.find(layer + 1); found != layers.end()) {
    one.all.type = found->second;
    one.parts.clear();
  }
  return one;
}

std::vector<CacheRounding> CacheRounding::each_exact(Index count) const {
  const auto rounds = [](const CacheTypeRow& row) { return row.type != CacheType::real; };
  std::vector<CacheRounding> list;
  for (Index layer = 0; layer < count; ++layer) {
    if (!of_layer(layer).any_type(rounds)) continue;
    list.push_back(*this);
    list.back().layers[layer + 1] = CacheType::real;
  }
  return list;
}

CacheFormat CacheRounding::of(const Kept& kept) const {
  if (!is_rounded(kept)) return {};
  CacheFormat format = all;
  for (const auto& [part, type] : parts) {
    if (names(part, kept.name)) format.type = type;
  }
  if (row_of(format.type).scale_bytes == 0) format.group = 0;
  if (format.type == CacheType::real || kept.block > 0) format.recent = 0;
  return format;
}

bool CacheRounding::rounds() const {
  return all.rotated ||
         any_type([](const CacheTypeRow& row) { return row.type != CacheType::real; });
}

void CacheRounding::require_fit(std::span<const std::vector<Kept>> keeps) const {
  std::vector<std::string> known, exact;  // parts that are rounded, and others
  for (const std::vector<Kept>& of_layer : keeps) {
    for (const Kept& kept : of_layer) {
      std::vector<std::string>& alike = is_rounded(kept) ? known : exact;
      if (std::ranges::find(alike, kept.name) == alike.end()) alike.push_back(kept.name);
    }
  }
  for (const auto& rounded : parts) {
    const std::string& part = rounded.first;
    const auto is_it = [&](const std::string& name) { return names(part, name); };
    if (std::ranges::any_of(known, is_it)) continue;
    throw SettingError("`cache-dtype` rounds '{}', which the model {}; {}", part,
                       std::ranges::any_of(exact, is_it) ? "keeps as computed" : "does not keep",
                       known.empty() ? "states are never rounded, and it keeps nothing else"
                                     : "its parts are " + joined(known));
  }
  if (!layers.empty() && layers.rbegin()->first > std::ssize(keeps))
    throw SettingError("`cache-dtype` names layer {}, the model has {}; name one of them",
                       layers.rbegin()->first, keeps.size());
}

}  // namespace headcount
