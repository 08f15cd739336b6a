#pragma once

#include <string>

#include "train/compare/comparison.h"

namespace headcount {

/// The parts of the page that show how each attention reads the passage: the passage coloured by
/// the loss of each character, and what each head looks at before the character that the passage
/// asks for. Empty where no attention has a reading.
std::string reading_figures(const ComparisonResult& result);

}  // namespace headcount
