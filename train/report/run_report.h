#pragma once

#include <string>
#include <vector>

#include "train/compare/result_text.h"
#include "train/report/run_curves.h"
#include "train/table.h"

/// Training runs that are there, beside each other, for people.

namespace headcount {

/// What each run is and what it measured last, for a terminal or a page.
std::vector<Column<RunCurves>> run_columns(const std::vector<RunCurves>& runs, Reader reader);

/// The losses of all runs against the step, of training and of validation, as svg_text of a chart.
std::string losses_svg(const std::vector<RunCurves>& runs);

/// The page report.html: the losses, what each run measured last, settings, those first that
/// differ, and how to repeat each run. Self-contained as comparison_report is. Deterministic.
std::string run_report(const std::vector<RunCurves>& runs);

}  // namespace headcount
