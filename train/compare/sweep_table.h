#pragma once

#include <string>
#include <vector>

#include "train/compare/comparison.h"
#include "train/compare/result_text.h"
#include "train/table.h"

/// What a sweep tried, and what each attention took.

namespace headcount {

/// A column for each value of the sweep: the loss that it was judged by, and a mark at the least.
/// None where nothing was swept.
std::vector<Column<VariantResult>> sweep_columns(const ComparisonResult& result, Reader reader);

/// What the losses of the sweep are of, and a warning for each attention that took the least or the
/// greatest value tried: one beyond it may be better. None where nothing was swept.
std::vector<std::string> sweep_notes(const ComparisonResult& result);

}  // namespace headcount
