#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace headcount {

/// A config.json, from wherever `--config` takes it.
struct ConfigFile {
  std::string name;  ///< of a released model; empty: it is a file
  nlohmann::json config;
  nlohmann::json settings;                      ///< see ReleasedModel; null: not known
  std::optional<std::filesystem::path> folder;  ///< of the file; none if it has no files beside it
};
/// Reads the configuration that `path` names: a file, its folder, "-" for standard input or a
/// released model. Throws DataError that names what cannot be read, and the nearest released model.
ConfigFile read_config_file(const std::string& path);

/// Bytes of the weights beside a configuration: of the files that the index of the safetensors
/// names, else of model.safetensors, else of its parts. None if there are none, or some are
/// pointers of git-lfs or missing from the index, unless that has their sum. Throws DataError for
/// files that cannot be read, for parts that are not all there, and for an index that names no
/// files or files elsewhere.
std::optional<double> weight_bytes(const std::filesystem::path& folder);

}  // namespace headcount
