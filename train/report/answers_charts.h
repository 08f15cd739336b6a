#pragma once

#include <vector>

#include "train/compare/comparison.h"
#include "train/report/report.h"

/// Charts of the share of right answers, where the text marks answers; they add nothing elsewhere.
namespace headcount {

void add_answers_against_cache(const ComparisonResult& result, std::vector<ReportChart>& charts);
void add_answers_against_distance(const ComparisonResult& result, std::vector<ReportChart>& charts);

}  // namespace headcount
