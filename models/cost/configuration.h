#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/base/real.h"

namespace headcount {

/// A Hugging Face configuration with the rules and defaults of its type. Keys have their most
/// frequent names; other names of them are found, too, also inside objects: "a.b" is the key b of
/// the object a. All of this stands in model_types.json. All readers throw DataError that names a
/// key whose value cannot be. It refers to the JSON, which must live as long.
class Configuration {
 public:
  /// Finds the configuration of the text in that of a multimodal model. `as` names the type whose
  /// rules apply instead of `model_type`. Throws DataError if the type is unknown, with the type
  /// whose mechanism the keys tell.
  static Configuration of(const nlohmann::json& config, const std::string& as);
  const std::string& type() const { return type_; }
  /// Configuration of one layer: a list of sizes or of objects is replaced by the layer's entry.
  Configuration of_layer(Index layer) const;

  /// The value of `key`, or its default; null if it is null or missing and has no default.
  const nlohmann::json* find(const std::string& key) const;
  /// The name that the file has for `key`; `key` if it has none.
  std::string name_of(const std::string& key) const;
  /// Whether the file, not a default, gives the value of `key`.
  bool gives(const std::string& key) const;
  /// Whole number from 0 to 2^31 - 1 that the file or a default gives; `otherwise` if neither does.
  Index whole(const std::string& key, std::optional<Index> otherwise = {}) const;
  /// As `whole`, but throws DataError for 0.
  Index positive(const std::string& key, std::optional<Index> otherwise = {}) const;
  /// True or false; false if there is none.
  bool on(const std::string& key) const;
  /// A list; null if there is none.
  const nlohmann::json* list(const std::string& key) const;

  /// Returns true if the type's class reads `key`: its rules then list a default, or null.
  bool knows(const char* key) const { return rules_->at("defaults").contains(key); }
  /// A rule of the type; `otherwise` if it has none of that name.
  std::string rule(const char* name, const char* otherwise = "") const {
    return rules_->value(name, otherwise);
  }
  Index number_rule(const char* name, Index otherwise) const {
    return rules_->value(name, otherwise);
  }

  /// Adds a sentence to `notes`, once.
  void note(const std::string& sentence) const;
  /// What a reader must know: sizes that the file did not give, and what stood in for them.
  std::vector<std::string> notes() const;
  /// Throws DataError that names a key of the file that decides what a cache holds but that nothing
  /// has looked for.
  void refuse_unread_keys() const;
  /// Throws DataError that names a key of KV heads or of a head's width that nothing has looked for
  /// and whose value differs from the counted one.
  void refuse_unread_sizes(Index kv_heads, Index width) const;

 private:
  // What was looked for, and what stood in for missing values.
  struct Reading {
    std::map<std::string, std::vector<std::string>> names;  // of each key that was looked for
    std::set<std::string> keys;
    std::map<std::string, std::string> defaults;
    std::vector<std::string> notes;
  };

  Configuration(const nlohmann::json& config, const std::string& type);
  const std::vector<std::string>& names_of(const std::string& key) const;
  const nlohmann::json* at_path(const std::string& path) const;
  void refuse_unread(const std::string& key, std::optional<Index> counted) const;

  const nlohmann::json& config_;
  std::shared_ptr<const nlohmann::json> rules_;
  std::string type_;
  std::shared_ptr<Reading> reading_ = std::make_shared<Reading>();
  Index layer_ = -1;  // -1: of all layers
};

/// Table of model_types.json that applies to all types.
const nlohmann::json& model_type_table(const char* name);

}  // namespace headcount
