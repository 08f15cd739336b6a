#include "train/cost_figures.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "train/units.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index kMostDrawn = 1000;  // layers: more would be thinner than a pixel

// Parts of a layer with a window, or 0, as a page draws them.
Json blocks_of(const std::vector<Kept>& parts, Index window, const CacheRounding& rounding) {
  Json blocks = Json::array();
  for (const Kept& kept : parts) {
    Json block = {{"name", kept.name},   {"heads", kept.heads},
                  {"width", kept.width}, {"window", kept.block > 0 ? 0 : window},
                  {"block", kept.block}, {"bytes", bytes_of_number(kept, rounding)}};
    if (kept.per_sequence) block["per_sequence"] = true;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Points of a curve: powers of two from 1024 tokens on, and the contexts themselves.
std::vector<Index> points_of(const DrawnCache& cache, const std::vector<Index>& contexts,
                             double most) {
  constexpr Index kFirst = 1 << 10, kLast = 1 << 27;
  std::vector<Index> points = contexts;
  std::int64_t tokens = std::min(kFirst, contexts.front());
  const auto goes_on = [&] {
    return tokens < contexts.back() ||
           (tokens <= kLast && cache.bytes(static_cast<Index>(tokens / 2)) < most);
  };
  for (; goes_on(); tokens *= 2) points.push_back(static_cast<Index>(tokens));
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

}  // namespace

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

DrawnCache drawn_cache(const std::string& name, const ConfigCache& cache,
                       const CacheRounding& rounding) {
  Json layers = Json::array();
  for (const CachedLayer& layer : cache.layers)
    layers.push_back(blocks_of(layer.parts, layer.window, rounding));
  return {name, std::move(layers),
          [cache, rounding](Index context) { return cache.bytes(context, rounding).total(); }};
}

Json cache_layers(const ModelPlan& model, const CacheRounding& rounding) {
  Json layers = Json::array();
  for (Index i = 0; i < model->layers; ++i) {
    const AttentionPlan& attention = model->layer_attention(i);
    std::vector<Kept> parts = kept_by_block(*model, attention);
    if (model->writer(i) == i) {  // otherwise it reads another layer's
      const std::vector<Kept> rows = cache_parts(attention);
      parts.insert(parts.begin(), rows.begin(), rows.end());
    }
    layers.push_back(blocks_of(parts, attention.window, rounding));
  }
  return layers;
}

DrawnCache drawn_cache(const std::string& name, const ModelPlan& model,
                       const CacheRounding& rounding) {
  return {name, cache_layers(model, rounding), [model, rounding](Index context) {
            return static_cast<double>(kv_cache_bytes(model, context, rounding).value());
          }};
}

Json cost_figures(const std::vector<DrawnCache>& caches, const std::vector<Index>& contexts,
                  Index batch, const std::optional<Room>& room) {
  const auto sequences = static_cast<double>(batch);
  Json drawn = Json::array();
  for (const DrawnCache& cache : caches) {
    Json points = Json::array();
    for (const Index tokens : points_of(cache, contexts, room ? room->bytes / sequences : 0))
      points.push_back({tokens, sequences * cache.bytes(tokens)});
    Json one = {{"spec", cache.name}, {"points", std::move(points)}};
    if (std::ssize(cache.layers) <= kMostDrawn) one["cache"] = cache.layers;
    drawn.push_back(std::move(one));
  }
  Json figures = {{"contexts", contexts}, {"batch", batch}, {"caches", std::move(drawn)}};
  if (room) figures["room"] = {{"bytes", room->bytes}, {"name", room->name}};
  return figures;
}

}  // namespace headcount
