#include "nn/attention/cache_rounding.h"

#include <algorithm>

#include "autograd/base/settings.h"
#include "autograd/base/text.h"
#include "nn/attention/layer_cache.h"

namespace headcount {

namespace {

bool names(std::string_view part, const Kept& kept) {
  const std::string_view name = kept.name;
  return name.starts_with(part) && (name.size() == part.size() || name[part.size()] == '_');
}

bool is_rounded(const Kept& kept) { return !kept.per_sequence && !kept.exact; }

CacheType type_named(std::string_view name) {
  for (const CacheTypeRow& row : cache_types()) {
    if (row.name == name) return row.type;
  }
  throw SettingError(
      "`cache-dtype` must be one of {}, or types of parts such as k=int4+v=int2, is {}",
      joined(cache_types(), &CacheTypeRow::name), quoted(name));
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
  const std::vector<std::string_view> all = split_text(text, '+');
  if (all.size() == 1 && text.find('=') == text.npos) return type_named(text);
  for (const std::string_view one : all) {
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
  return rounding;
}

std::string CacheRounding::text() const {
  if (parts.empty()) return std::string(row_of(all.type).name);
  std::string words;  // as `parse` reads them
  for (const auto& [part, type] : parts)
    words += (words.empty() ? "" : "+") + part + "=" + std::string(row_of(type).name);
  return words;
}

CacheFormat CacheRounding::of(const Kept& kept) const {
  if (!is_rounded(kept)) return {};
  CacheFormat format = all;
  for (const auto& [part, type] : parts) {
    if (names(part, kept)) format.type = type;
  }
  if (row_of(format.type).scale_bytes == 0) format.group = 0;
  if (format.type == CacheType::real || kept.block > 0) format.recent = 0;
  return format;
}

bool CacheRounding::rounds() const {
  return all.rotated ||
         any_type([](const CacheTypeRow& row) { return row.type != CacheType::real; });
}

void CacheRounding::require_parts(std::span<const Kept> keeps) const {
  std::vector<std::string> known;
  for (const Kept& kept : keeps) {
    if (is_rounded(kept) && std::ranges::find(known, kept.name) == known.end())
      known.push_back(kept.name);
  }
  for (const auto& rounded : parts) {
    const std::string& part = rounded.first;
    const auto is_it = [&](const Kept& kept) { return names(part, kept); };
    if (std::ranges::any_of(keeps, [&](const Kept& k) { return is_it(k) && is_rounded(k); }))
      continue;
    const bool exact = std::ranges::any_of(keeps, is_it);
    throw SettingError("`cache-dtype` rounds '{}', which the model {}; {}", part,
                       exact ? "keeps as computed" : "does not keep",
                       known.empty() ? "states are never rounded, and it keeps nothing else"
                                     : "its parts are " + joined(known));
  }
}

}  // namespace headcount
