#include "train/page/engine/cache_parts.h"

#include <algorithm>

#include "models/cost.h"

namespace headcount::page {

namespace {

// Rows of a part after `tokens` tokens.
Index rows_held(const Kept& kept, const LayerCache& cache, Index tokens) {
  if (kept.per_sequence) return 1;
  return kept.block > 0 ? tokens / kept.block : std::min(tokens, cache.capacity());
}

Index bytes_per_row(const Kept& kept) {
  return kept.heads * kept.width * static_cast<Index>(sizeof(Real));
}

Json layer_json(const LanguageModel& model, Index layer, const LayerCache& cache) {
  const Index context = model.plan()->context;
  const AttentionPlan& attention = model.plan()->layer_attention(layer);
  Json parts = Json::array();
  Index bytes = 0;
  for (const Kept& kept : cache.keeps()) {
    const Index of_part = rows_held(kept, cache, context) * bytes_per_row(kept);
    bytes += of_part;
    const double rate =
        kept.per_sequence ? 0 : 1.0 / static_cast<double>(std::max<Index>(1, kept.block));
    parts.push_back({{"name", kept.name},
                     {"heads", kept.heads},
                     {"width", kept.width},
                     {"numbers", kept.heads * kept.width},
                     {"rows_per_token", rate},
                     {"state", kept.per_sequence},
                     {"most_rows", rows_held(kept, cache, context)},
                     {"bytes", of_part}});
  }
  const Index writer = model.plan()->writer(layer);
  return {{"layer", layer},
          {"attention", attention.kind().name},
          {"shares", writer == layer ? Json() : Json(writer)},
          {"window", attention.window},
          {"bytes", bytes},
          {"parts", parts}};
}

}  // namespace

Json cache_json(const LanguageModel& model) {
  const ModelPlan& plan = model.plan();
  const std::vector<LayerCache> caches = model.make_caches({.capacity = plan->context});
  Json layers = Json::array();
  Index states = 0;
  for (Index layer = 0; layer < plan->layers; ++layer) {
    const LayerCache& cache = caches[static_cast<std::size_t>(layer)];
    layers.push_back(layer_json(model, layer, cache));
    for (const Kept& kept : cache.keeps()) states += kept.per_sequence ? bytes_per_row(kept) : 0;
  }
  return {{"bytes_per_token", kv_cache_bytes_per_token(plan)},
          {"state_bytes", states},
          {"bytes_at_context", kv_cache_bytes(plan, plan->context).value()},
          {"layers", layers}};
}

Json held_json(std::span<const LayerCache> caches) {
  Json layers = Json::array();
  Index all_rows = 0, all_bytes = 0;
  for (const LayerCache& cache : caches) {
    Index rows = 0, bytes = 0;
    for (const Kept& kept : cache.keeps()) {
      const Index held = rows_held(kept, cache, cache.length());
      if (!kept.per_sequence) rows = std::max(rows, held);
      bytes += held * bytes_per_row(kept);
    }
    layers.push_back({{"rows", rows}, {"bytes", bytes}});
    all_rows = std::max(all_rows, rows);
    all_bytes += bytes;
  }
  return {{"rows", all_rows}, {"bytes", all_bytes}, {"layers", layers}};
}

}  // namespace headcount::page
