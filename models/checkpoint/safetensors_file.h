#pragma once

#include <filesystem>

#include "models/checkpoint/safetensors.h"

namespace headcount {

/// Reads a file. Throws DataError if it cannot be read or is not valid.
Safetensors open_safetensors(const std::filesystem::path& path);

/// Writes a safetensors file, tensors in the given order, and flushes it to the disk. The file is
/// not replaced atomically: write it inside `publish_folder`. Throws WriteError.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace headcount
