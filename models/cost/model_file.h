#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace headcount {

/// A model's config.json: a file, or an entry of released_models.json.
struct ModelFile {
  std::string name;         ///< "llama-3.1-405b"; of a file its path
  std::string source = {};  ///< where the sizes of a released model stand; empty: it is a file
  nlohmann::json config = {};
  /// Its attention as settings of this program's models; null where nobody has written them down.
  nlohmann::json settings = {};
  std::filesystem::path folder = {};  ///< of the file and its weights; empty if there are none
};

/// All released models that the program knows, in families.
const std::vector<ModelFile>& released_models();
/// The released model of that name. Throws DataError that names the nearest.
const ModelFile& released_model(const std::string& name);
/// Reads the configuration that `path` names: a file, its folder, "-" for standard input or a
/// released model. Throws DataError that names what cannot be read.
ModelFile read_model_file(const std::string& path);

inline constexpr const char* kIndexFile = "model.safetensors.index.json";
/// What a kIndexFile says. Source: huggingface.co/docs/transformers/main/en/big_models, "Sharded
/// checkpoints".
struct WeightIndex {
  std::set<std::string> files;  ///< names of the files of weights, in the index's folder
  double bytes = 0;             ///< of all weights; 0 if the index does not say
};
/// Throws DataError for an unusable index, such as one that names files outside of its folder.
WeightIndex read_weight_index(const std::filesystem::path& path);

/// Bytes of the weights in a folder: of the files that kIndexFile names, else of model.safetensors,
/// else of model-00001-of-00002.safetensors and so on. If such a file is missing or a pointer of
/// git-lfs, the sum that kIndexFile gives; none without it. Throws DataError for files that cannot
/// be read, for a missing -of- file without index, and for an unusable index.
std::optional<double> weight_bytes(const std::filesystem::path& folder);

}  // namespace headcount
