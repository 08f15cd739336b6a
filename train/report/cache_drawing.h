#pragma once

#include <string>
#include <vector>

#include "train/compare/comparison.h"

namespace headcount {

/// The context at which a cache is drawn besides that of the training.
inline constexpr Index kLongContext = 131072;

/// Numbers of all layers at this context: each takes a float in the cache.
Index cache_numbers(const std::vector<CacheLayer>& cache, Index context);

/// Caches as areas: layers side by side, as wide as the numbers that a token leaves behind there,
/// as high as there are tokens kept; at `context` at the left, at the long one at the right. All of
/// one side are to one scale, and all widths of both. As svg_text of a chart.
std::string cache_drawing(const std::vector<const VariantResult*>& variants, Index context,
                          const std::string& title, const std::string& description);

}  // namespace headcount
