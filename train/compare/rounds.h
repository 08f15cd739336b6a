#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/compare/comparison.h"
#include "train/compare/runner.h"
#include "train/compare/sequential_testing.h"
#include "train/compare/variants.h"

namespace headcount {

/// Runs of a comparison, which is trained in rounds. The first round has seeds 1 ...
/// SeedRange::first of all candidates. Each later round has one more seed of the reference and of
/// each undecided attention, by its best candidate. A round depends on the outcomes of earlier
/// rounds alone, so results do not depend on the number of runs side by side.
class Rounds {
 public:
  /// Runs go to runs/ in `folder`. `facts` are known before any run: the question with its
  /// reference, one of `variants`, and what why_undecided reads. `variants` must outlive the
  /// rounds.
  Rounds(const std::vector<PlannedVariant>& variants, ComparisonResult facts,
         const std::filesystem::path& folder, const std::string& command);

  const std::vector<RunPlan>& runs() const { return runs_; }

  /// Runs of the next round, seed by seed, so that a machine that slows down for a while does so
  /// for every attention; none if the comparison ends. Call it when all runs of the round before
  /// have ended. An attention is given up when as many of its runs, or of the reference's, failed
  /// as there are first seeds; if losses are compared, also when one of its runs diverged.
  std::vector<std::size_t> next(std::span<const RunStatus> statuses);

  /// Candidate by which an attention is judged, with its runs.
  struct Chosen {
    const Candidate* candidate;
    std::span<const RunPlan> runs;        ///< of seeds 1, 2, ... of all rounds so far
    std::span<const RunStatus> statuses;  ///< of these
  };
  Chosen chosen(std::size_t variant, std::span<const RunStatus> statuses) const;
  /// What candidates of an attention are chosen by, the least of: the tuning loss or, if steps are
  /// compared, the steps taken, as a mean over the first seeds; none if a run of these seeds
  /// failed, or without a sweep.
  std::vector<std::optional<double>> tuning_figures(std::size_t variant,
                                                    std::span<const RunStatus> statuses) const;

 private:
  std::vector<std::size_t> undecided(std::span<const RunStatus> statuses) const;

  const std::vector<PlannedVariant>& variants_;
  ComparisonResult facts_;
  std::size_t reference_, first_, last_;  // the latter two: of SeedRange
  Judge judge_;
  std::vector<RunPlan> runs_;           // by variant, candidate, seed
  std::vector<std::size_t> first_run_;  // by variant: index of its first run
  std::vector<std::size_t> seeds_;      // by variant: in all rounds so far; empty before the first
};

/// What the chosen runs of a variant gave: its measurements and failures, without sizes and
/// estimates.
VariantResult outcome_of(const PlannedVariant& variant, const Rounds::Chosen& chosen);

}  // namespace headcount
