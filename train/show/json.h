#pragma once

#include <nlohmann/json_fwd.hpp>

namespace headcount {

/// JSON whose keys stay in the order in which they were written, as files and pages have them.
using Json = nlohmann::ordered_json;

}  // namespace headcount
