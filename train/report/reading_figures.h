#pragma once

#include <string>

#include "train/compare/comparison.h"

namespace headcount {

/// HTML of how each attention reads the passage: the passage coloured by the loss of each
/// character, and each head's attention just before the character that the passage asks for. Empty
/// if no attention has a reading.
std::string reading_figures(const ComparisonResult& result);

}  // namespace headcount
