#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "autograd/error.h"
#include "autograd/real.h"

namespace headcount {

/// The JSON in `text`. Throws DataError that says where it stops being JSON, and for what is nested
/// more deeply than any file of ours.
nlohmann::json parse_json(std::string_view text);
/// Throws DataError: what `key` has in a file is of no use here, for the reason `why`.
[[noreturn]] void refuse(const std::string& key, const nlohmann::json& value,
                         const std::string& why);

/// The whole of `text` as a number; invalid_argument if it is none, result_out_of_range if it is
/// too large. Not every standard library has std::from_chars for it.
std::errc parse_number(std::string_view text, double& number);

/// `text` between quotation marks, on one line: control characters as numbers.
std::string quoted(std::string_view text);

/// The whole number that `object` has under `key`. Throws DataError that names the key, for what is
/// no whole number from 0 on; nlohmann::json itself would convert 1e300 somehow.
Index whole_number(const nlohmann::json& object, const std::string& key);

/// The names of `items` with commas between them.
template <class Items, class Name = std::identity>
std::string joined(const Items& items, Name name = {}) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += std::invoke(name, item);
  }
  return text;
}

/// The parts of `text` between separators: at least one, any of them may be empty.
std::vector<std::string_view> split_text(std::string_view text, char separator);

}  // namespace headcount
