#pragma once

#include <span>
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

/// Takes the intervals off the points of more lines than five: their bands would hide each other.
/// Returns what to say of the bands that are drawn: "bands are 95 % intervals ..." or that there
/// are none, and why.
std::string thin_out_bands(std::vector<ChartSeries>& all);

/// The first step that a chart of a loss shows whose longest curve has points at `steps`, rising.
/// The first tenth of a training, where every loss falls alike from that of guessing, would leave
/// no height for what comes after. None of a short curve is left out.
Index first_step_shown(std::span<const Index> steps);

/// Logarithmic for losses that fall to a small part of themselves.
Scale loss_scale(const std::vector<ChartSeries>& all);

}  // namespace headcount
