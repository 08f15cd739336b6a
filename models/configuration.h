#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/base/real.h"

namespace headcount {

/// A Hugging Face configuration with the rules and defaults of its type. Keys have their most
/// frequent names; other names of them are found, too. All of this stands in model_types.json. All
/// readers throw DataError that names a key whose value cannot be. It refers to the JSON, which
/// must live as long.
class Configuration {
 public:
  /// Finds the configuration of the text in that of a multimodal model. `as` names the type whose
  /// rules apply instead of `model_type`. Throws DataError that names the nearest known type if the
  /// type is unknown.
  static Configuration of(const nlohmann::json& config, const std::string& as);
  const std::string& type() const { return type_; }

  /// The value of `key`, or its default; null if it is null or missing and has no default.
  const nlohmann::json* find(const std::string& key) const;
  /// A whole number from 0 to 2^31 - 1; `otherwise` if there is none.
  Index whole(const std::string& key, std::optional<Index> otherwise = {}) const;
  /// The same, at least 1.
  Index positive(const std::string& key, std::optional<Index> otherwise = {}) const;
  /// True or false; false if there is none.
  bool on(const std::string& key) const;
  /// A list; null if there is none.
  const nlohmann::json* list(const std::string& key) const;
  /// The object of `key`, such as linear_attn_config, with the same rules.
  Configuration nested(const std::string& key) const;

  /// Whether the type has a default for `key`, as it has where its class reads the key.
  bool knows(const char* key) const { return rules_.at("defaults").contains(key); }
  /// A rule of the type; `otherwise` if it has none of that name.
  std::string rule(const char* name, const char* otherwise = "") const {
    return rules_.value(name, otherwise);
  }
  Index number_rule(const char* name, Index otherwise) const {
    return rules_.value(name, otherwise);
  }

 private:
  Configuration(const nlohmann::json& config, const nlohmann::json& rules, std::string type)
      : config_(config), rules_(rules), type_(std::move(type)) {}

  const nlohmann::json& config_;
  const nlohmann::json& rules_;
  std::string type_;
};

/// What each layer of a configuration is: "full_attention", "sliding_attention", "mamba", ... as
/// transformers names them. As listed in the configuration, or as its type derives them. Throws
/// DataError that names the key of a list that is none, or of another length than the layers.
std::vector<std::string> layer_kinds(const Configuration& c);

}  // namespace headcount
