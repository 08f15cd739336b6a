#pragma once

#include <string>
#include <vector>

#include "train/compare/results.h"
#include "train/report/chart.h"
#include "train/statistics.h"

/// What several charts of a comparison have in common.
namespace headcount {

/// A mean with its interval, both times `unit`.
ChartPoint estimate_point(double x, const Estimate& estimate, double unit = 1);

/// "nats per character", or "nats per answer".
std::string unit_of_loss(const ComparisonResult& result);

/// Logarithmic for losses that fall to a small part of themselves.
Scale loss_scale(const std::vector<ChartSeries>& all);

}  // namespace headcount
