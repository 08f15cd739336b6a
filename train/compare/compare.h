#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "train/compare/comparison.h"
#include "train/compare/queue.h"
#include "train/compare/variants.h"

namespace headcount {

/// Default list of attentions for a comparison on the text `data`.
std::string_view default_attentions(std::string_view data);

/// Attentions that are compared, and the question that decides between them.
struct ComparisonOptions {
  std::vector<AttentionSpec> specs;
  Question question;
  Match match;
  std::optional<Sweep> sweep;
  /// Number of the validation passage that the report shows; 0: see telling_passage, or the first
  /// if all attentions may be enough.
  Index passage = 0;
  std::vector<CacheRounding> roundings = {};  ///< with which finished runs are evaluated again
  Index rounded_characters = 0;  ///< of the validation part, read with `roundings`; 0: all
};

/// How the runs are trained; nothing here changes a result.
struct RunOrders {
  std::filesystem::path folder;  ///< runs go to runs/ in it
  std::string command;           ///< the whole command line, for records
  Index jobs = 0;                ///< runs side by side; 0: as many as there are threads
  bool again = false;            ///< repeats finished runs too
};

/// A comparison that can start: all that can be refused before a run is trained has been.
struct ComparisonPlan {
  ComparisonOptions options;             ///< with the question's reference filled in
  std::vector<PlannedVariant> variants;  ///< in the order of the attentions
  Corpus corpus;  ///< in a sweep, with the slice for tuning losses, the first tenth of the training
                  ///< text, cut off the training part
};

/// Plans the comparison of `options` with the settings `common` that all variants share. Throws
/// SettingError, ShapeError and DataError for what no comparison can be made of: see
/// plan_comparison, require_answerable and passage_to_read.
ComparisonPlan plan(const Given& common, ComparisonOptions options, Corpus corpus);

/// Reason why the comparison will decide nothing, known before any run, a clause without a full
/// stop; empty if it may decide something, or is not to.
std::string why_in_vain(const ComparisonPlan& plan);

/// Trains every variant with the same data in the same order, on as many seeds as it takes to
/// answer the question, and judges them. In a sweep, each variant gets the value with the least
/// loss on the tuning slice, averaged over the first seeds. Any number of processes may call this
/// function for one folder: they share the runs (see RunQueue), and all get the same result. Throws
/// OtherRunError for a folder with the results of another comparison (see require_same_comparison)
/// that is not made again; what RunQueue throws; and InterruptedError after a caught signal, after
/// which the same comparison resumes.
ComparisonResult compare(const ComparisonPlan& plan, const RunOrders& orders, RunWatcher& watcher);

}  // namespace headcount
