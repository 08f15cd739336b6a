#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "models/checkpoint/safetensors.h"

/// Weights of a Hugging Face model folder: one file model.safetensors, or several that
/// model.safetensors.index.json names.
/// Source: huggingface.co/docs/transformers/main/en/big_models, "Sharded checkpoints".

namespace headcount {

/// Returns true if the folder has weights, in either form. Throws DataError if it cannot be read.
bool has_weights(const std::filesystem::path& folder);

/// Names of the files that hold the folder's weights, the index included. Throws DataError for an
/// unusable index, such as one that names files outside of the folder.
std::vector<std::string> weight_files(const std::filesystem::path& folder);

/// All weights of the folder. Throws DataError that names the file.
Safetensors open_weights(const std::filesystem::path& folder);

}  // namespace headcount
