#pragma once

#include <vector>

#include "train/compare/comparison.h"
#include "train/compare/result_text.h"
#include "train/table.h"

namespace headcount {

/// All that is known of each attention of a comparison, in one place for all its tables; which
/// columns a table has, and in what order, it `selected`s. Estimates are two columns, of which the
/// first has text for both. What no attention of this comparison has is left out.
std::vector<Column<VariantResult>> comparison_columns(const ComparisonResult& result,
                                                      Reader reader);

}  // namespace headcount
