#pragma once

#include <vector>

#include "train/compare/comparison.h"
#include "train/compare/result_text.h"
#include "train/table.h"

namespace headcount {

/// All columns that tables of a comparison may have, one row per attention. A table picks columns
/// and their order by `selected`. An estimate takes two columns, mean and interval; the first has
/// the text of both. Columns that are empty for every attention are left out.
std::vector<Column<VariantResult>> comparison_columns(const ComparisonResult& result,
                                                      Reader reader);

}  // namespace headcount
