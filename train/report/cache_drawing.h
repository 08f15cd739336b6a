#pragma once

#include <string>
#include <vector>

#include "train/compare/comparison.h"

namespace headcount {

/// Second context at which caches are drawn, besides that of training; tokens.
inline constexpr Index kLongContext = 131072;

/// Numbers in the caches of all layers at this context; each takes one float.
Index numbers_at_context(const std::vector<CacheLayer>& cache, Index context);

/// Drawing of KV caches as areas, SVG as svg_text of a chart. Layers stand side by side; a layer's
/// width is the numbers it stores per token, its height the tokens that it keeps. At the left are
/// caches at `context`, at the right at kLongContext. Heights have one scale per side, widths one
/// scale for both.
std::string cache_drawing(const std::vector<const VariantResult*>& variants, Index context,
                          const std::string& title, const std::string& description);

}  // namespace headcount
