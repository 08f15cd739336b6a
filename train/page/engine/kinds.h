#pragma once

#include <nlohmann/json.hpp>

namespace headcount::page {

/// All kinds of attention, in the order of help, with the settings that their specs give as
/// numbers: {"kinds": [{"name", "summary", "attends", "rotates", "numbers": [{"name", "help"}]}]}.
nlohmann::ordered_json kinds_json();

}  // namespace headcount::page
