#include "models/cost.h"
#include "train/cost_figures.h"
#include "train/page/engine/replies.h"

namespace headcount::page {

Json cache_json(const LanguageModel& model) {
  const ModelPlan& plan = model.plan();
  return {{"bytes_per_token", kv_cache_bytes_per_token(plan)},
          {"bytes_at_context", kv_cache_bytes(plan, plan->context).value()},
          {"layers", cache_layers(plan, {})}};
}

}  // namespace headcount::page
