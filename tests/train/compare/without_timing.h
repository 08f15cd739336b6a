#pragma once

#include <nlohmann/json.hpp>

namespace headcount {

/// Contents of results.json without times and machine.
inline nlohmann::ordered_json without_timing(const std::string& text) {
  auto results = nlohmann::ordered_json::parse(text);
  for (const char* name : {"machine", "machine_hours"}) results.erase(name);
  for (auto& variant : results["variants"]) {
    for (const char* name : {"train_tokens_per_second", "train_speeds", "machine_seconds"})
      variant.erase(name);
  }
  return results;
}

}  // namespace headcount
