#include "train/cost_figures.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "train/units.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index kMostDrawn = 1000;  // layers: more would be thinner than a pixel

// Points of a curve, tokens and bytes of `batch` sequences: at powers of two from 1024 tokens on,
// until the bytes exceed `most`, and at the contexts themselves.
Json points_of(const ModelCache& cache, const CacheRounding& rounding,
               const std::vector<Index>& contexts, Index batch, double most) {
  constexpr Index kFirst = 1 << 10, kLast = 1 << 27;
  const auto bytes = [&](Index tokens) {
    return static_cast<double>(batch) *
           static_cast<double>(cache.bytes(tokens, rounding).total().value());
  };
  std::set<Index> points(contexts.begin(), contexts.end());
  std::int64_t tokens = std::min(kFirst, contexts.front());
  const auto goes_on = [&] {
    return tokens < contexts.back() ||
           (tokens <= kLast && bytes(static_cast<Index>(tokens / 2)) < most);
  };
  for (; goes_on(); tokens *= 2) points.insert(static_cast<Index>(tokens));
  Json all = Json::array();
  for (const Index point : points) all.push_back({point, bytes(point)});
  return all;
}

}  // namespace

Json cache_layers(const ModelCache& cache, const CacheRounding& rounding) {
  Json layers = Json::array();
  for (const CachedLayer& layer : cache.layers) {
    Json blocks = Json::array();
    for (const Kept& kept : layer.parts) {
      Json block = {{"name", kept.name},   {"heads", kept.heads},
                    {"width", kept.width}, {"window", kept.block > 0 ? 0 : layer.window},
                    {"block", kept.block}, {"bytes", bytes_of_number(kept, rounding)}};
      if (kept.per_sequence) block["per_sequence"] = true;
      blocks.push_back(std::move(block));
    }
    layers.push_back(std::move(blocks));
  }
  return layers;
}

std::string stored_text(const CacheRounding& rounding, CacheType unrounded) {
  std::string text;
  const auto add = [&](const std::string& part, CacheType type) {
    const CacheTypeRow& row = row_of(type);
    const Index group = rounding.all.group;
    const bool whole = row.bits % 8 == 0;
    text += (text.empty() ? "" : ", ") + part +
            (whole ? counted(row.bits / 8, "byte") : counted(row.bits, "bit")) + " a number";
    if (row.scale_bytes > 0)
      text += " and " + std::to_string(row.scale_bytes) + (whole ? " a " : " bytes a ") +
              (group > 0 ? "group of " + std::to_string(group) : "row");
    text += " (" + std::string(row.name) + ")";
  };
  if (rounding.parts.empty()) add("", rounding.all.type);
  for (const auto& [part, type] : rounding.parts) add(part + " ", type);
  if (rounding.all.recent > 0)
    add("of the last " + std::to_string(rounding.all.recent) + " tokens ", unrounded);
  return text + ", states " + std::to_string(kStateBytes) + " (f32)";
}

Json cost_figures(const std::vector<NamedCache>& caches, const CacheRounding& rounding,
                  const std::vector<Index>& contexts, Index batch,
                  const std::optional<Room>& room) {
  Json drawn = Json::array();
  for (const auto& [name, cache] : caches) {
    Json one = {{"spec", name},
                {"points", points_of(cache, rounding, contexts, batch, room ? room->bytes : 0)}};
    if (std::ssize(cache.layers) <= kMostDrawn) one["cache"] = cache_layers(cache, rounding);
    drawn.push_back(std::move(one));
  }
  Json figures = {{"contexts", contexts}, {"batch", batch}, {"caches", std::move(drawn)}};
  if (room) figures["room"] = {{"bytes", room->bytes}, {"name", room->name}};
  return figures;
}

}  // namespace headcount
