#pragma once

#include <string>

#include "train/compare/comparison.h"

namespace headcount {

/// File name of the page that trains in a browser (train/page).
inline constexpr const char* kTrainingPage = "headcount.html";

/// Link of a report to the training page in the same folder, with the comparison's settings and
/// attentions in the address: headcount.html#settings={"settings": {...}, "attentions": [...]},
/// percent-encoded. Empty if the page cannot repeat the comparison: models were converted, or
/// attentions have settings that `match` or `sweep` chose.
std::string try_link(const ComparisonResult& result);

}  // namespace headcount
