#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

namespace headcount {

/// Parses JSON. Throws DataError that says where `text` stops being JSON, and for values nested
/// more deeply than in any file of this program.
nlohmann::json parse_json(std::string_view text);
/// Throws DataError: the value that a file has for `key` cannot be used, for the reason `why`.
[[noreturn]] void refuse(const std::string& key, const nlohmann::json& value,
                         const std::string& why);

/// The whole number, at least 0, of `key` in `object`. Throws DataError that names the key if it
/// has no such value; nlohmann::json itself would convert 1e300 without an error.
Index whole_number(const nlohmann::json& object, const std::string& key);

}  // namespace headcount
