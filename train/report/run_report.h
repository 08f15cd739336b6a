#pragma once

#include <string>
#include <vector>

#include "train/compare/number_text.h"
#include "train/report/run_curves.h"
#include "train/table.h"

/// Report of several training runs side by side, for people.

namespace headcount {

/// Columns of a table with one row per run: name, attention, size and newest measurements.
std::vector<Column<RunCurves>> run_columns(const std::vector<RunCurves>& runs, Reader reader);

/// Chart of training and validation losses of all runs against the step, as svg_text of a chart.
std::string losses_svg(const std::vector<RunCurves>& runs);

/// The page report.html: losses, newest measurements, settings (those that differ first), and how
/// to repeat each run. Self-contained as comparison_report is. Deterministic.
std::string run_report(const std::vector<RunCurves>& runs);

}  // namespace headcount
