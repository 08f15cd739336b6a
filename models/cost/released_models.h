#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace headcount {

/// A model that somebody released, with its sizes: an entry of released_models.json.
struct ReleasedModel {
  std::string name;       ///< "llama-3.1-405b"
  std::string source;     ///< where the sizes stand
  nlohmann::json config;  ///< of the KV cache, as in its config.json
  /// Its attention as settings of this program's models; null where nobody has written them down.
  nlohmann::json settings;
};

/// All released models that the program knows, in families.
const std::vector<ReleasedModel>& released_models();
/// The released model of that name. Throws DataError that names the nearest.
const ReleasedModel& released_model(const std::string& name);

}  // namespace headcount
