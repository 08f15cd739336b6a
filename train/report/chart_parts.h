#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/compare/results.h"
#include "train/report/chart.h"
#include "train/statistics.h"

/// Parts that several charts of a comparison share.
namespace headcount {

/// Point of a mean with its interval, both times `unit`.
ChartPoint estimate_point(double x, const Estimate& estimate, std::string hover, double unit = 1);

/// Unit of the comparison's loss: "nats per character" or "nats per answer".
std::string unit_of_loss(const ComparisonResult& result);

/// Removes the intervals of all points if there are more than five lines, whose bands would hide
/// each other. Returns a caption about the bands: "bands are 95 % intervals ..." or that there are
/// none, and why.
std::string thin_out_bands(std::vector<ChartSeries>& all);

/// First step that a chart of losses shows; `steps` are those of its longest curve, rising. The
/// first tenth of training, in which every loss falls alike from that of guessing, would leave no
/// height for the rest. A short curve is shown whole.
Index first_step_shown(std::span<const Index> steps);

/// Scale for losses: logarithmic if they fall to a small fraction of their first value.
Scale loss_scale(const std::vector<ChartSeries>& all);

}  // namespace headcount
