#pragma once

#include "models/decoder.h"
#include "train/page/engine/session.h"

namespace headcount::page {

/// Parts of the KV cache of each layer and their sizes, in float32.
Json cache_json(const LanguageModel& model);

/// Rows and bytes in use of each layer's cache, for one sequence.
Json held_json(std::span<const LayerCache> caches);

}  // namespace headcount::page
