#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/config_cache.h"
#include "models/cost.h"

namespace headcount {

/// A KV cache that a page draws.
struct DrawnCache {
  std::string name;
  nlohmann::ordered_json layers;       ///< see cache_layers
  std::function<double(Index)> bytes;  ///< of one sequence of so many tokens
};
/// What each layer of a model caches, a list of blocks: {"name", "heads", "width" of numbers a
/// head, "window", "per_sequence", "block" of tokens a row stands for, "bytes" of a number}, for
/// train/view/cache_picture.js. A layer that reads another layer's cache has none.
nlohmann::ordered_json cache_layers(const ModelPlan& model, const CacheRounding& rounding);
DrawnCache drawn_cache(const std::string& name, const ConfigCache& cache,
                       const CacheRounding& rounding);
DrawnCache drawn_cache(const std::string& name, const ModelPlan& model,
                       const CacheRounding& rounding);

/// Note on the number types of a cache: "2 bytes a number (bf16), states 4 (f32)"; recent tokens
/// are `unrounded`.
std::string stored_text(const CacheRounding& rounding, CacheType unrounded = CacheType::real);

/// Bytes that caches may take, and how a picture names them.
struct Room {
  double bytes;
  std::string name;
};

/// What train/view/cost.js draws: the caches to scale at `contexts`, which ascend, and the bytes of
/// `batch` sequences against context, up to where they exceed `room`.
nlohmann::ordered_json cost_figures(const std::vector<DrawnCache>& caches,
                                    const std::vector<Index>& contexts, Index batch,
                                    const std::optional<Room>& room);

}  // namespace headcount
