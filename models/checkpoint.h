#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "models/language_model.h"

namespace headcount {

class Safetensors;

/// A model and the characters that its tokens stand for.
struct Checkpoint {
  std::unique_ptr<LanguageModel> model;
  std::u32string symbols;  ///< token i is symbols[i]
};

/// Writes a checkpoint folder, whole or not at all: `config.json` (the model's settings and
/// symbols) and `model.safetensors` (its weights, under Hugging Face's names).
/// Throws WriteError.
void save_checkpoint(const std::filesystem::path& folder, const LanguageModel& model,
                     std::u32string_view symbols);

/// Reads a checkpoint folder. `window`, if given, replaces the model's attention window. Throws
/// DataError that names the file and what is wrong in it: for a weight of another shape, the tensor
/// and both shapes.
Checkpoint load_checkpoint(const std::filesystem::path& folder,
                           std::optional<Index> window = std::nullopt);

/// The newest checkpoint of a run folder, or `path` itself if it is a checkpoint folder.
/// Throws DataError if it is neither.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// Copies the weights of `file` into `parameters`. Throws DataError for a weight that is missing,
/// left over, or of another shape.
void read_weights(const Safetensors& file, ParameterStore& parameters);

}  // namespace headcount
