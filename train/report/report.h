#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "train/compare/comparison.h"

/// Results of a comparison for people: charts, and a page that holds everything.

namespace headcount {

struct ReportChart {
  std::string file;     ///< "loss_against_cache.svg"
  std::string caption;  ///< one or two plain sentences, no markup
  std::string svg;      ///< one <svg> element; valid as a file of its own
};

/// The files that comparison_charts can name.
inline constexpr std::array<std::string_view, 9> kChartFiles = {
    "differences.svg",  "conversions.svg",           "loss_against_cache.svg",
    "cache.svg",        "training_loss.svg",         "loss_by_position.svg",
    "decode_speed.svg", "answers_against_cache.svg", "answers_against_distance.svg"};

/// The charts that the results suffice for, in the order of the page: differences from the
/// reference, loss of converted models, loss against cache, the caches, training loss, loss by
/// position (contexts of more than 32 tokens), decoding speed against context (two contexts or
/// more), answers against cache and against distance (where the corpus marks answers). Attentions
/// without a finished run are left out.
std::vector<ReportChart> comparison_charts(const ComparisonResult& result);

/// The page report.html: the verdict with the differences, summary and the chart of its question,
/// table, other charts, how each attention reads a passage, failures, and how to repeat the
/// comparison. Self-contained: see page.h. Deterministic. With `can_try` it offers the training
/// page, which lies in the same folder (see try_link.h).
std::string comparison_report(const ComparisonResult& result, bool can_try = false);

}  // namespace headcount
