#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/compare/comparison.h"
#include "train/compare/queue.h"
#include "train/compare/variants.h"
#include "train/compare/verdict.h"

namespace headcount {

/// All runs that a comparison may train, and which of them it needs. The need for a run depends on
/// the outcomes of other runs and not on when they end, so results do not depend on the number of
/// runs side by side.
class NeededRuns {
 public:
  /// Runs go to runs/ in `folder`. `facts` are known before any run: the question with its
  /// reference, one of `variants`, and what why_open reads. `variants` must outlive the plan.
  NeededRuns(const std::vector<PlannedVariant>& variants, ComparisonResult facts,
             const std::filesystem::path& folder, const std::string& command);

  const std::vector<RunPlan>& runs() const { return runs_; }

  /// Need of each run, given the outcomes so far. The first seeds (1 ... SeedRange::first) of all
  /// candidates are needed; after that, only runs of the best candidate of each attention. While a
  /// verdict is open and more seeds can decide it, one more seed of that attention and of the
  /// reference is needed. An attention is given up when as many of its runs, or of the reference's,
  /// failed as there are first seeds; if losses are compared, also when one of its runs diverged.
  std::vector<Need> needs(std::span<const RunStatus> outcomes) const;

  /// Candidate by which an attention is judged, with its runs.
  struct Chosen {
    const Candidate* candidate;
    const RunPlan* first;             ///< run of seed 1; those of seeds 2, 3, ... follow it
    std::vector<RunStatus> outcomes;  ///< outcomes of seeds 1, 2, ... as far as needed
  };
  /// Chosen candidate of an attention. Call it when all needed runs have ended.
  Chosen chosen(std::size_t variant, std::span<const RunStatus> outcomes) const;
  /// What candidates of an attention are chosen by, the least of: the tuning loss or, if steps are
  /// compared, the steps taken, as a mean over the first seeds (1 ... SeedRange::first); none if a
  /// run of these seeds failed. Call it when all needed runs have ended.
  std::vector<std::optional<double>> tuning_figures(std::size_t variant,
                                                    std::span<const RunStatus> outcomes) const;

 private:
  std::size_t first_run(std::size_t variant, std::size_t candidate) const;
  std::span<const RunStatus> of(std::span<const RunStatus> outcomes, std::size_t first) const {
    return outcomes.subspan(first, seeds_);
  }
  std::optional<double> tuning_figure(std::span<const RunStatus> outcomes) const;
  /// What the first seeds of the reference and the controls settle for all verdicts.
  struct Settled {
    std::optional<double> tolerance;
    bool open = false;  ///< no verdict can be reached: see why_open
  };
  /// None while one of these runs is under way.
  std::optional<Settled> settled(std::span<const RunStatus> outcomes) const;
  /// Index of the first run of the best candidate; none while that is unknown.
  std::optional<std::size_t> best(std::size_t variant, std::span<const RunStatus> outcomes) const;
  void need_more(std::size_t variant, std::span<const RunStatus> outcomes,
                 const std::optional<Settled>& settled, std::vector<Need>& needs) const;

  const std::vector<PlannedVariant>& variants_;
  ComparisonResult facts_;
  std::size_t reference_, first_, seeds_;  ///< seeds: of all candidates, and at most
  Judge judge_;
  std::vector<RunPlan> runs_;  ///< by variant, candidate, seed
};

}  // namespace headcount
