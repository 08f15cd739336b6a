#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/contents.h"
#include "models/checkpoint/hugging_face.h"

/// A checkpoint is a folder that Hugging Face's libraries open as a model: config.json,
/// tokenizer.json, tokenizer_config.json and model.safetensors; and SHA256SUMS with the checksum of
/// each file, as for `sha256sum --check`.

namespace headcount {

/// Writes a checkpoint folder, whole or not at all. `write_more`, if given, adds files of its own
/// to the staging folder that it is called with; they get checksums too. Throws WriteError, and
/// NonFiniteError for weights that are NaN or infinite.
void save_checkpoint(
    const std::filesystem::path& folder, const LanguageModel& model, const Vocabulary& vocabulary,
    Documents documents = Documents::one,
    const std::function<void(const std::filesystem::path& staging)>& write_more = {});

/// Reads a checkpoint folder, made here or elsewhere, whose weights are in model.safetensors, or in
/// several files that model.safetensors.index.json names. Throws DataError that names the file and
/// what is wrong in it: a key that no model here has, a weight of another shape with both shapes, a
/// wrong checksum, a weight that is NaN or infinite (see read_weights).
Checkpoint load_checkpoint(const std::filesystem::path& folder,
                           NonFinite allowed = NonFinite::refused);

/// Model in a checkpoint folder, read from config.json alone. Throws DataError.
NamedConfig load_config(const std::filesystem::path& folder);

/// Reads a safetensors file. Throws DataError if it cannot be read or is not valid.
Safetensors open_safetensors(const std::filesystem::path& path);

/// Writes a safetensors file, tensors in the given order, and flushes it to the disk. The file is
/// not replaced atomically: write it inside `publish_folder`. Throws WriteError.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata = {});

/// Checksums by file name, from SHA256SUMS, if there is one. Throws DataError unless it names each
/// of `files`: if not, its end was cut off.
std::map<std::string, std::string> require_sums(const std::filesystem::path& folder,
                                                std::span<const std::string> files);

/// Folder of a run that holds its checkpoints, each in a folder step-N.
inline constexpr const char* kCheckpoints = "checkpoints";

/// Folder of the checkpoint that `run` saves after `step` steps.
std::filesystem::path checkpoint_of(const std::filesystem::path& run, Index step);

/// Checkpoints of a run, from new to old. Throws DataError if their folder cannot be read.
std::vector<std::filesystem::path> checkpoints_of(const std::filesystem::path& run);

/// Newest checkpoint of a run folder, or `path` itself if it is a checkpoint folder; nothing if it
/// is neither. Throws DataError if a folder of checkpoints cannot be read.
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& path);

/// Step N of a checkpoint folder named step-N; nothing for other names.
std::optional<Index> step_of(const std::filesystem::path& folder);

}  // namespace headcount
