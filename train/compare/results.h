#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/compare/comparison.h"
#include "train/show/table.h"

namespace headcount {

/// All columns that results may have, in the order of results.json; a table for people has some of
/// them. An estimate takes two columns, mean and interval, and the first has the text of
/// both.
std::vector<Column<VariantResult>> comparison_columns(const ComparisonResult& result);
/// One column per value of the sweep with its tuning loss; the chosen value is marked. Empty
/// without a sweep.
std::vector<Column<VariantResult>> sweep_columns(const ComparisonResult& result);

/// Computes from the runs of each attention: estimates, differences from the reference, verdicts,
/// speeds.
void summarize(ComparisonResult& result);

/// Notes, one sentence each: stories that the context cuts, characters evaluated if
/// `eval-characters` limits them, notes on attentions, attentions without a reading, and runs that
/// failed at values which the sweep did not choose.
std::vector<std::string> notes(const ComparisonResult& result);

/// Name of the compared text: "recall", or a file without its folders.
std::string text_name(const ComparisonResult& result);
/// What up to six attentions cache, those alike together: "Of each token, a layer of mha caches
/// 4 keys and 4 values of 16 numbers; one of mqa caches 1 key and 1 value of 16 numbers." Empty for
/// more, and where layers of one attention differ.
std::string caches_sentence(const ComparisonResult& result);

/// The columns that a newcomer reads, as text of all attentions.
std::vector<TextColumn> usual_columns(const ComparisonResult& result);

/// The results in a format: a table for people with a line for each attention, followed by
/// failures, baselines and the sweep; results.json; or CSV. With a `width`, text leaves out
/// statistics, sizes and speeds, and lines below the table are wrapped.
std::string results_table(const ComparisonResult& result, Format format = Format::text,
                          std::size_t width = 0);
/// results_table for people followed by caches_sentence and notes, those on statistics only if it
/// has these.
std::string comparison_table(const ComparisonResult& result, Format format = Format::text,
                             std::size_t width = 0);

/// results.json: everything about a comparison, as reports show it, with a row for each run.
/// Intervals are half widths, null if there is none; the difference of the reference is null.
/// Attention weights and the losses of the passage have four decimals.
nlohmann::ordered_json comparison_json(const ComparisonResult& result);
/// The comparison that comparison_json wrote, summarized again from its runs. Throws DataError if
/// `json` is none of a comparison, or of an earlier version.
ComparisonResult read_results(const nlohmann::ordered_json& json);

}  // namespace headcount
