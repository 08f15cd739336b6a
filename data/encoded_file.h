#pragma once

#include <filesystem>

#include "data/encoded_text.h"

namespace headcount {

/// Encodes a UTF-8 file piece by piece. Throws DataError as read_text does.
EncodedText encode_file(const std::filesystem::path& path);

}  // namespace headcount
