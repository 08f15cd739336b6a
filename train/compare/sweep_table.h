#pragma once

#include <string>
#include <vector>

#include "train/compare/comparison.h"
#include "train/compare/result_text.h"
#include "train/table.h"

/// Columns and notes about a sweep: the values tried, and the value chosen for each attention.

namespace headcount {

/// One column per value of the sweep: the tuning loss that values are chosen by, the lowest marked.
/// Empty without a sweep.
std::vector<Column<VariantResult>> sweep_columns(const ComparisonResult& result, Reader reader);

/// Sentences about the sweep: what its losses are of, and a warning for each attention whose chosen
/// value is the least or the greatest tried, since a value beyond may be better. Empty without a
/// sweep.
std::vector<std::string> sweep_notes(const ComparisonResult& result);

}  // namespace headcount
