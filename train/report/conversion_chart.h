#pragma once

#include "train/compare/results.h"
#include "train/report/report.h"

namespace headcount {

/// Returns true if the comparison converted models, besides training from random weights.
bool has_conversions(const ComparisonResult& result);

/// Chart of the loss of converted models against training after conversion: one line per attention,
/// and a level line at the loss of training from random weights.
ReportChart conversion_chart(const ComparisonResult& result);

}  // namespace headcount
