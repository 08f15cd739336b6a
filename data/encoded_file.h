#pragma once

#include <filesystem>

#include "data/encoded_text.h"

namespace headcount {

/// Encodes a UTF-8 file piece by piece, and after it another one, unless `second` is empty. Throws
/// DataError as read_text does.
EncodedText encode_file(const std::filesystem::path& path, bool unix_newlines = false,
                        const std::filesystem::path& second = {});

}  // namespace headcount
