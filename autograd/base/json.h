#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "autograd/base/error.h"
#include "autograd/base/real.h"

namespace headcount {

/// Whether what is read may have numbers that are NaN or infinite.
enum class NonFinite { refused, allowed };

/// Parses JSON. Throws DataError that says where `text` stops being JSON, and for values nested
/// more deeply than in any file of this program. With NonFinite::allowed it also reads NaN,
/// Infinity and -Infinity, which JSON lacks and Python's json module writes.
nlohmann::json parse_json(std::string_view text, NonFinite numbers = NonFinite::refused);

/// JSON of a value in one line, NaN and infinities as Python writes them.
std::string json_text(const nlohmann::json& value);
/// Why a value of parsed JSON could not be used, for a message.
std::string reason_of(const nlohmann::json::exception& error);

/// What `read` makes of the JSON in `text`, the file `name`. Errors name the file.
template <class Read>
auto read_json(std::string_view text, const std::string& name, const Read& read,
               NonFinite numbers = NonFinite::refused) {
  try {
    return read(parse_json(text, numbers));
  } catch (const nlohmann::json::exception& error) {
    throw DataError("{}: {}", name, reason_of(error));
  } catch (const Error& error) {
    throw DataError("{}: {}", name, error.what());
  }
}

/// Throws DataError: the value that a file has for `key` cannot be used, for the reason `why`.
[[noreturn]] void refuse(const std::string& key, const nlohmann::json& value,
                         const std::string& why);

/// The whole number, at least 0, of `key` in `object`. Throws DataError that names the key if it
/// has no such value; nlohmann::json itself would convert 1e300 without an error.
Index whole_number(const nlohmann::json& object, const std::string& key);

}  // namespace headcount
