#include "autograd/base/json.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace headcount {

nlohmann::json parse_json(std::string_view text) {
  static constexpr int kDeepest = 32;  // printing a value recurses
  const auto refuse_depth = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kDeepest) throw DataError("not valid JSON: nested more than {} deep", kDeepest);
    return true;
  };
  try {
    return nlohmann::json::parse(text, refuse_depth);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("not valid JSON: {}", error.what());
  }
}

void refuse(const std::string& key, const nlohmann::json& value, const std::string& why) {
  throw DataError("'{}' is {}, but {}", key, value.dump(), why);
}

Index whole_number(const nlohmann::json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found == object.end()) throw DataError("'{}' is missing", key);
  // A number that was parsed is unsigned if it can be; others have the type of their C++ value.
  const bool whole = found->is_number_unsigned()
                         ? std::in_range<Index>(found->get<std::uint64_t>())
                         : found->is_number_integer() &&
                               std::in_range<Index>(found->get<std::int64_t>()) &&
                               found->get<Index>() >= 0;
  if (!whole) throw DataError("'{}' must be a whole number, is {}", key, found->dump());
  return found->get<Index>();
}

}  // namespace headcount
