#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "nn/attention/kind.h"

/// Configuration of one layer in tests.
namespace headcount {

/// Settings by name, and properties that a layer gets from its model.
struct LayerConfig : LayerPlace {
  std::string kind = "mha";
  Given given{attention_settings()};
};

inline AttentionPlan resolved(const LayerConfig& config) {
  return resolve_attention(attention_kind(config.kind), config.given, config);
}

inline void set(Given& given, const std::string& name, std::integral auto value) {
  if constexpr (std::same_as<decltype(value), bool>) {
    given.put(name, value ? "on" : "off");
  } else {
    given.put(name, value);
  }
}
inline void set(Given& given, const std::string& name, std::string_view value) {
  given.put(name, value);
}
inline void set(LayerConfig& config, const std::string& name, const auto& value) {
  set(config.given, name, value);
}

}  // namespace headcount
