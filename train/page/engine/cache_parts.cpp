#include "models/cost.h"
#include "train/page/engine/replies.h"

namespace headcount::page {

Json cache_layers_json(const LanguageModel& model, const CacheRounding& rounding) {
  const ModelPlan& plan = model.plan();
  Json layers = Json::array();
  for (const LayerCache& cache :
       model.make_caches({.capacity = plan->context, .rounding = rounding})) {
    const Index window = plan->layer_attention(std::ssize(layers)).window;
    Json parts = Json::array();
    for (const Kept& kept : cache.keeps()) {
      parts.push_back({{"name", kept.name},
                       {"heads", kept.heads},
                       {"width", kept.width},
                       {"window", kept.block > 0 ? 0 : window},
                       {"per_sequence", kept.per_sequence},
                       {"block", kept.block},
                       {"bytes", bytes_of_number(kept, rounding)}});
    }
    layers.push_back(std::move(parts));
  }
  return layers;
}

Json cache_json(const LanguageModel& model) {
  const ModelPlan& plan = model.plan();
  return {{"bytes_per_token", kv_cache_bytes_per_token(plan)},
          {"bytes_at_context", kv_cache_bytes(plan, plan->context).value()},
          {"layers", cache_layers_json(model, {})}};
}

}  // namespace headcount::page
