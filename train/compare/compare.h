#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
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
  Index passage = 1;  ///< number of the validation passage that the report shows: see Passage
};

/// How the runs are trained; nothing here changes a result.
struct RunOrders {
  std::filesystem::path folder;  ///< runs go to runs/ in it
  std::string command;           ///< the whole command line, for records
  Index jobs = 0;                ///< runs side by side; 0: as many as there are threads
  bool again = false;            ///< repeats finished runs too
};

/// Throws DataError if the training text is too short for the sweep, and SettingError if the
/// validation part has no passage of that number. `compare` needs both; call this before anything
/// is written.
void require_enough_text(const ComparisonOptions& options, const Corpus& corpus,
                         const std::vector<PlannedVariant>& variants);

/// Trains every variant with the same data in the same order, on as many seeds as it takes to
/// answer the question, and evaluates. With a sweep, the last tenth of the
/// training text is kept from training, and each variant gets the value with the least loss on it,
/// averaged over the first seeds. Any number of processes may call this function for one folder:
/// they share the runs (see RunQueue), and all get the same result. Throws what RunQueue throws,
/// and InterruptedError after a caught signal, after which the same comparison resumes.
ComparisonResult compare(const ComparisonOptions& options, const RunOrders& orders, Corpus corpus,
                         const std::vector<PlannedVariant>& variants, RunWatcher& watcher);

}  // namespace headcount
