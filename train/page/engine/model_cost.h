#pragma once

#include <nlohmann/json.hpp>

namespace headcount::page {

/// What the KV cache of other people's model costs: "text", as `headcount cost --config` prints it,
/// and "figures", what view/cost.js draws. `request` has the text "config" of a config.json, the
/// "context", and may have "kv_heads" instead of the model's and a "memory" such as "24GiB". Also
/// returns the model's own "kv_heads", 0 if it has none, its "heads" and its longest "context", 0
/// if unknown. Throws DataError and SettingError.
nlohmann::ordered_json model_cost_json(const nlohmann::json& request);

}  // namespace headcount::page
