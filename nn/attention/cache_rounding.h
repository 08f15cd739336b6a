#pragma once

#include <functional>
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
  /// f32. Throws SettingError.
  static CacheRounding parse(std::string_view text);
  std::string text() const;  ///< the types, as `parse` reads them

  CacheFormat all;  ///< of rows whose type `parts` does not name; all but the type is of all rows
  /// Types of rows by part: the name of a `Kept`, or its begin up to a `_`: "rope" of "rope_key".
  std::vector<std::pair<std::string, CacheType>> parts = {};

  /// Format in which `kept` is stored. Pooled rows are never recent.
  CacheFormat of(const Kept& kept) const;
  /// Returns true if `wanted` holds for one of the types.
  template <class Wanted>
  bool any_type(const Wanted& wanted) const {
    bool any = parts.empty() && std::invoke(wanted, row_of(all.type));
    for (const auto& part : parts) any = any || std::invoke(wanted, row_of(part.second));
    return any;
  }
  bool rounds() const;  ///< false if all rows are read as they are computed, to the bit
  /// Throws SettingError if `parts` names what none of `keeps` is called, or what is never rounded.
  void require_parts(std::span<const Kept> keeps) const;
};

}  // namespace headcount
