#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "train/compare/comparison.h"
#include "train/compare/verdict.h"
#include "train/show/table.h"

/// Reports for people: one HTML file that loads nothing, with the verdicts and tables as text and
/// the results as JSON, from which its script draws the charts (see report.js).

namespace headcount {

/// The page without its contents: {title}, {body} and {data} stand for those.
extern const char* const kReportTemplate;

/// File name of the page that trains in a browser (train/page).
inline constexpr const char* kTrainingPage = "headcount.html";

/// A section of a report.
struct ReportPart {
  std::string title;                  ///< "Attention compared: mha and mqa"
  std::string about;                  ///< what the attentions cache; may be empty
  std::vector<std::string> verdicts;  ///< see verdict_clauses; none for training runs
  std::string reference;              ///< what the verdicts compare with
  std::vector<VerdictItem> items;     ///< the same as a list, if anything is decided
  std::string asked;                  ///< what the text asks of the models; empty: nothing to say
  std::vector<std::pair<std::string, std::string>> words;  ///< attentions, verdicts
  std::vector<TextColumn> columns;  ///< of the table that stands above all of `table`; may be empty
  bool has_more = false;            ///< `table` has more than further columns, and is not folded up
  /// As commands print it with this `--format`; text is at most so wide if that is not 0.
  std::function<std::string(Format, std::size_t width)> table;
  std::vector<std::string> notes;  ///< sentences below the table
  nlohmann::ordered_json data;     ///< what report.js draws from
};

/// Section on a comparison. With `can_try` it offers the training page, which lies in the same
/// folder.
ReportPart comparison_part(const ComparisonResult& result, bool can_try = false);

/// Section on training runs side by side, of read_runs.
ReportPart runs_part(const nlohmann::ordered_json& curves);

/// The page with these sections, at least one. Deterministic.
std::string report_page(const std::vector<ReportPart>& parts);

}  // namespace headcount
