#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/cache/cache_format.h"

namespace headcount {

struct Kept;

/// How caches round what layers keep. States and exact rows are never rounded.
struct CacheRounding {
  CacheRounding(CacheType type = CacheType::real) : all(type) {}
  /// Parses one type for all rows, or types by cache part, "k=int4+v=int2", with f32 for all
  /// others. Layers, counted from 1, may override both: "int4+layer1=bf16+layers3-4=int8". Throws
  /// SettingError.
  static CacheRounding parse(std::string_view text);
  /// Removes "each:" from the beginning of a text, where it stands for a list: the rounding behind
  /// it, then `each_exact`. Returns true if it was there.
  static bool take_each(std::string_view& text);
  std::string text() const;  ///< the types, as `parse` reads them

  CacheFormat all;  ///< of rows whose type `parts` does not name; all but the type is of all rows
  /// Types by cache part: the name of a `Kept`, or its beginning up to a `_`, "rope" of "rope_key".
  std::vector<std::pair<std::string, CacheType>> parts = {};

  /// Types of all rows of a layer, by its number from 1; no effect on a layer without rows.
  std::map<Index, CacheType> layers = {};

  /// Rounding of one layer, counted from 0: `layers` is resolved into `all` and `parts`.
  CacheRounding of_layer(Index layer) const;
  /// For each of `count` layers that this rounds, a copy that leaves this layer unrounded.
  std::vector<CacheRounding> each_exact(Index count) const;
  /// Format in which `kept` is stored, in a model without `layers`. Pooled rows are never recent.
  CacheFormat of(const Kept& kept) const;
  /// Returns true if `wanted` holds for one of the types that cache parts or layers have.
  template <class Wanted>
  bool any_type(const Wanted& wanted) const {
    bool any = parts.empty() && std::invoke(wanted, row_of(all.type));
    for (const auto& part : parts) any = any || std::invoke(wanted, row_of(part.second));
    for (const auto& layer : layers) any = any || std::invoke(wanted, row_of(layer.second));
    return any;
  }
  bool rounds() const;  ///< false if all rows are read as they are computed, to the bit
  /// Throws SettingError if `parts` names a cache part that no layer has or that is never rounded,
  /// and if `layers` names a layer that the model lacks. `keeps` has a list for each layer.
  void require_fit(std::span<const std::vector<Kept>> keeps) const;
};

}  // namespace headcount
