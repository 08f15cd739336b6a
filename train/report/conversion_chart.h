#pragma once

#include "train/compare/results.h"
#include "train/report/report.h"

namespace headcount {

/// Whether models were converted, and not only trained from random weights.
bool has_conversions(const ComparisonResult& result);

/// A line for each attention, from its conversion over more and more training, and a level one at
/// what training from random weights gave.
ReportChart conversion_chart(const ComparisonResult& result);

}  // namespace headcount
