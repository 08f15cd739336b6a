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
  /// Types from a text: one for all rows, or some for parts, "k=int4+v=int2"; other parts then stay
  /// f32. Types of layers, counted from 1, take their place: "int4+layer1=bf16+layers3-4=int8".
  /// Throws SettingError.
  static CacheRounding parse(std::string_view text);
  /// Removes "each:" from the beginning of a text, where it stands for a list: the rounding behind
  /// it, then `each_exact`. Returns true if it was there.
  static bool take_each(std::string_view& text);
  std::string text() const;  ///< the types, as `parse` reads them

  CacheFormat all;  ///< of rows whose type `parts` does not name; all but the type is of all rows
  /// Types of rows by part: the name of a `Kept`, or its begin up to a `_`: "rope" of "rope_key".
  std::vector<std::pair<std::string, CacheType>> parts = {};

  /// Types of all rows of layers, counted from 1; of one that keeps none without effect.
  std::map<Index, CacheType> layers = {};

  /// The rounding in a layer, counted from 0, where `all` and `parts` are as there.
  CacheRounding of_layer(Index layer) const;
  /// This rounding with one of the layers at a time as computed, but for those that already are.
  std::vector<CacheRounding> each_exact(Index count) const;
  /// Format in which `kept` is stored, in a model without `layers`. Pooled rows are never recent.
  CacheFormat of(const Kept& kept) const;
  /// Returns true if `wanted` holds for one of the types.
  template <class Wanted>
  bool any_type(const Wanted& wanted) const {
    bool any = parts.empty() && std::invoke(wanted, row_of(all.type));
    for (const auto& part : parts) any = any || std::invoke(wanted, row_of(part.second));
    for (const auto& layer : layers) any = any || std::invoke(wanted, row_of(layer.second));
    return any;
  }
  bool rounds() const;  ///< false if all rows are read as they are computed, to the bit
  /// Throws SettingError if `parts` names what no layer keeps, or what is never rounded, and if
  /// `layers` names one that the model lacks. `keeps` has a list for each layer.
  void require_fit(std::span<const std::vector<Kept>> keeps) const;
};

}  // namespace headcount
