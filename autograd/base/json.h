#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

namespace headcount {

/// The JSON in `text`. Throws DataError that says where it stops being JSON, and for what is nested
/// more deeply than any file of ours.
nlohmann::json parse_json(std::string_view text);
/// Throws DataError: what `key` has in a file is of no use here, for the reason `why`.
[[noreturn]] void refuse(const std::string& key, const nlohmann::json& value,
                         const std::string& why);

/// The whole number that `object` has under `key`. Throws DataError that names the key, for what is
/// no whole number from 0 on; nlohmann::json itself would convert 1e300 somehow.
Index whole_number(const nlohmann::json& object, const std::string& key);

}  // namespace headcount
