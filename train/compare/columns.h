#pragma once

#include <vector>

#include "train/compare/comparison.h"
#include "train/table.h"

/// Columns of the tables of a comparison, one row per attention, for terminal, CSV and JSON.

namespace headcount {

/// All columns that results may have, in the order of results.json; a table for people picks some
/// by `selected`. An estimate takes two columns, mean and interval, and the first has the text of
/// both.
std::vector<Column<VariantResult>> comparison_columns(const ComparisonResult& result);

/// One column per value of the sweep with its tuning loss; the chosen value is marked. Empty
/// without a sweep.
std::vector<Column<VariantResult>> sweep_columns(const ComparisonResult& result);

}  // namespace headcount
