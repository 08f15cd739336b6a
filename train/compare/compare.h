#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "data/corpus.h"
#include "train/compare/comparison.h"
#include "train/compare/plan.h"
#include "train/compare/runner.h"

namespace headcount {

/// What a comparison does with its variants.
struct ComparisonOptions {
  TrainOptions common;  ///< what the variants were planned from
  std::vector<AttentionSpec> specs = parse_attention_specs("mha,gqa,mqa,mla");
  Question question;
  Match match;
  std::optional<Sweep> sweep;
  Index passage = 1;             ///< which one of the validation text is looked at: see Passage
  Index jobs = 0;                ///< runs side by side; 0: as many as there are threads
  std::filesystem::path folder;  ///< runs go to runs/ in it
  std::string command;           ///< the whole command line, for records
  bool again = false;            ///< repeats finished runs too
};

/// Trains every variant with the same data in the same order, on as many seeds as it takes to
/// answer the question, evaluates, and measures the decoding. With a sweep, the last tenth of the
/// training text is kept from training, and each variant gets the value with the least loss on it,
/// over the first seeds. Errors as run_all.
ComparisonResult compare(const ComparisonOptions& options, Corpus corpus,
                         const std::vector<PlannedVariant>& variants, RunWatcher& watcher);

}  // namespace headcount
