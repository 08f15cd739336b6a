#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <string>

#include "nn/attention/config.h"

/// The settings that only some attentions have, by name, as a user gives them.
namespace headcount {

/// kUnset leaves the default.
inline void set(AttentionConfig& config, const std::string& name, std::integral auto value) {
  if constexpr (std::same_as<decltype(value), bool>) {
    config.settings().find(name)->parse(value ? "on" : "off");
  } else if (value != kUnset) {
    config.settings().find(name)->parse(std::to_string(value));
  }
}

inline Index get(const AttentionConfig& config, const std::string& name) {
  const nlohmann::json value = config.settings().find(name)->value();
  return value.is_string() ? value == "on" : value.get<Index>();
}

}  // namespace headcount
