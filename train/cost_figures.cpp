#include "train/cost_figures.h"

#include <algorithm>
#include <cstdint>

#include "train/units.h"

namespace headcount {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index kMostDrawn = 1000;  // layers: more would be thinner than a pixel

Json state_block(const std::string& name, Count numbers) {
  return {{"name", name},
          {"heads", 1},
          {"width", numbers.value()},
          {"per_sequence", true},
          {"bytes", kStateBytes}};
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
  CacheRounding old = rounding;  // of tokens that are no longer recent
  old.all.recent = 0;
  Json layers = Json::array();
  for (const CachedLayer& layer : cache.layers) {
    Json blocks = Json::array();
    for (const CachedRows& rows : layer.rows) {
      const Index heads = &rows == &layer.rows.front() ? std::max<Index>(1, layer.kv_heads) : 1;
      const std::int64_t numbers = rows.numbers().value();
      blocks.push_back({{"name", rows.name},
                        {"heads", heads},
                        {"width", numbers / heads},
                        {"window", rows.window},
                        {"block", rows.block},
                        {"bytes", rows.bytes(1, old) /
                                      static_cast<double>(std::max<std::int64_t>(1, numbers))}});
    }
    if (layer.state.value() > 0) blocks.push_back(state_block("state", layer.state));
    if (layer.convolutions().value() > 0)
      blocks.push_back(state_block("convolutions", layer.convolutions()));
    layers.push_back(std::move(blocks));
  }
  return {name, std::move(layers),
          [cache, rounding](Index context) { return cache.bytes(context, rounding).total(); }};
}

DrawnCache drawn_cache(const std::string& name, const ModelPlan& model,
                       const CacheRounding& rounding) {
  Json layers = Json::array();
  for (Index i = 0; i < model->layers; ++i) {
    const AttentionPlan& attention = model->layer_attention(i);
    Json blocks = Json::array();
    for (const Kept& kept : cache_parts(attention)) {
      if (model->writer(i) != i) break;  // it reads another layer's
      blocks.push_back({{"name", kept.name},
                        {"heads", kept.heads},
                        {"width", kept.width},
                        {"window", kept.block > 0 ? 0 : attention.window},
                        {"per_sequence", kept.per_sequence},
                        {"block", kept.block},
                        {"bytes", bytes_of_number(kept, rounding)}});
    }
    for (const Kept& kept : kept_by_block(*model, attention))
      blocks.push_back(state_block(kept.name, Count(kept.heads) * kept.width));
    layers.push_back(std::move(blocks));
  }
  return {name, std::move(layers), [model, rounding](Index context) {
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
