#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "train/compare/comparison.h"
#include "train/compare/runner.h"
#include "train/compare/variants.h"

namespace headcount {

/// A part of the runs of a comparison, for a process of its own: those of others are trained
/// elsewhere.
struct Shard {
  Index number = 1, count = 1;  ///< number 1 ... count

  /// "2/8". Throws SettingError.
  static Shard parse(std::string_view text);
};

/// The list of attentions that a comparison on the text `data` is of unless others are named.
std::string_view default_attentions(std::string_view data);

/// What a comparison asks of its variants.
struct ComparisonOptions {
  std::vector<AttentionSpec> specs;
  Question question;
  Match match;
  std::optional<Sweep> sweep;
  Index passage = 1;  ///< which one of the validation text is looked at: see Passage
};

/// How its runs are trained, which changes no result.
struct RunOrders {
  std::filesystem::path folder;  ///< runs go to runs/ in it
  std::string command;           ///< the whole command line, for records
  Index jobs = 0;                ///< runs side by side; 0: as many as there are threads
  bool again = false;            ///< repeats finished runs too
  std::optional<Shard> shard;    ///< trains only these runs
  bool collect = false;          ///< trains none: others have
};

/// Trains every variant with the same data in the same order, on as many seeds as it takes to
/// answer the question, evaluates, and measures the decoding. With a sweep, the last tenth of the
/// training text is kept from training, and each variant gets the value with the least loss on it,
/// over the first seeds. Ranks share the runs. The result has variants at rank 0 only, and none
/// for a shard, of which it has the failures. Errors as run_all; Error where a run is missing that
/// is to be collected; InterruptedError after a signal that was caught: the same comparison goes on
/// where this one was.
ComparisonResult compare(const ComparisonOptions& options, const RunOrders& orders, Corpus corpus,
                         const std::vector<PlannedVariant>& variants, RunWatcher& watcher,
                         Ranks& ranks = alone());

}  // namespace headcount
