#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "train/show/cache_cost.h"
#include "train/show/units.h"

namespace headcount {

Json cache_layers(const ModelCache& cache, const CacheRounding& rounding) {
  Json layers = Json::array();
  for (const CachedLayer& layer : cache.layers) {
    const CacheRounding own = rounding.of_layer(std::ssize(layers));
    Json& blocks = layers.emplace_back(Json::array());
    for (const Kept& kept : layer.parts) {
      Json& block = blocks.emplace_back(Json{{"name", kept.name},
                                             {"heads", kept.heads},
                                             {"width", kept.width},
                                             {"window", kept.block > 0 ? 0 : layer.window},
                                             {"block", kept.block},
                                             {"bytes", bytes_of_number(kept, own)}});
      if (kept.per_sequence) block["per_sequence"] = true;
    }
  }
  return layers;
}

Json CostTable::figures() const {
  constexpr Index kMostDrawn = 1000;  // layers: more would be thinner than a pixel
  constexpr std::int64_t kFirst = 1 << 10, kLast = 1 << 27;
  const double room = free_memory();
  Json drawn = Json::array();
  for (const CostRow& row : rows) {
    if (row.is_form) continue;
    const auto bytes = [&](Index tokens) { return this->bytes(row.cache, tokens); };
    std::set<Index> lengths(contexts.begin(), contexts.end());  // and powers of two
    for (std::int64_t tokens = std::min<std::int64_t>(kFirst, contexts.front());
         tokens < contexts.back() ||
         (tokens <= kLast && bytes(static_cast<Index>(tokens / 2)) < room);
         tokens *= 2)
      lengths.insert(static_cast<Index>(tokens));
    Json& one = drawn.emplace_back(Json{{"spec", row.label()}, {"points", Json::array()}});
    for (const Index length : lengths) one["points"].push_back({length, bytes(length)});
    if (std::ssize(row.cache.layers) <= kMostDrawn)
      one["cache"] = cache_layers(row.cache, rounding);
  }
  Json figures = {{"contexts", contexts}, {"batch", batch}, {"caches", std::move(drawn)}};
  if (memory)
    figures["room"] = {
        {"bytes", room},
        {"name", binary_text(room) + (weights ? " beside the weights" : " of memory")}};
  return figures;
}

}  // namespace headcount
