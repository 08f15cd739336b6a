#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/model_cache.h"

namespace headcount {

/// What each layer of a model caches, a list of blocks: {"name", "heads", "width" of numbers a
/// head, "window", "per_sequence", "block" of tokens a row stands for, "bytes" of a number}, for
/// train/view/cache_picture.js. A layer that reads another layer's cache has no rows.
nlohmann::ordered_json cache_layers(const ModelCache& cache, const CacheRounding& rounding);

/// Note on the number types of a cache: "2 bytes a number (bf16), states 4 (f32)"; recent tokens
/// are `unrounded`.
std::string stored_text(const CacheRounding& rounding, CacheType unrounded = CacheType::real);

/// A KV cache that a page draws.
struct NamedCache {
  std::string name;
  ModelCache cache;
};

/// Bytes that caches may take, and how a picture names them.
struct Room {
  double bytes;
  std::string name;
};

/// What train/view/cost.js draws: the caches to scale at `contexts`, which ascend, and the bytes of
/// `batch` sequences against context, up to where they exceed `room`.
nlohmann::ordered_json cost_figures(const std::vector<NamedCache>& caches,
                                    const CacheRounding& rounding,
                                    const std::vector<Index>& contexts, Index batch = 1,
                                    const std::optional<Room>& room = {});

}  // namespace headcount
