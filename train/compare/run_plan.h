#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/compare/comparison.h"
#include "train/compare/plan.h"
#include "train/compare/runner.h"
#include "train/compare/verdict.h"

namespace headcount {

/// All runs that a comparison may take, and which of them it needs. What is needed follows from how
/// runs ended and not from when: results do not depend on how many go side by side.
class RunPlan {
 public:
  /// Runs go to runs/ in `folder`; `reference` is the place of a variant. `why_open`, if given,
  /// says of the runs of the reference why no verdict can be reached, empty where one can.
  /// `variants` must outlive the plan.
  RunPlan(const std::vector<PlannedVariant>& variants, const Question& question,
          std::size_t reference, const std::filesystem::path& folder, const std::string& command,
          std::function<std::string(std::span<const RunResult>)> why_open = {});

  const std::vector<PlannedRun>& runs() const { return runs_; }

  /// Of each run, as far as those that have ended tell. The first seeds of all are needed; then,
  /// where several candidates were tried, those of the best only: one more of each attention whose
  /// verdict is open, and of the reference, while more can decide it. An attention is given up when
  /// as many of its runs failed as there are first seeds.
  std::vector<Need> needs(std::span<const RunOutcome> outcomes) const;

  /// What a variant is judged by.
  struct Chosen {
    const Candidate* candidate;
    const PlannedRun* first;           ///< that of seed 1; those of the next seeds follow it
    std::vector<RunOutcome> outcomes;  ///< of seeds 1, 2, ..., those that were needed
  };
  /// All that is needed has ended.
  Chosen chosen(std::size_t variant, std::span<const RunOutcome> outcomes) const;
  /// What each candidate of a variant is chosen by: its tuning loss, mean over the first seeds;
  /// none where one of them failed. All that is needed has ended.
  std::vector<std::optional<double>> tuning_losses(std::size_t variant,
                                                   std::span<const RunOutcome> outcomes) const;

 private:
  std::size_t first_run(std::size_t variant, std::size_t candidate) const;
  std::span<const RunOutcome> of(std::span<const RunOutcome> outcomes, std::size_t first) const {
    return outcomes.subspan(first, seeds_);
  }
  /// Where the runs of the best candidate begin, if that is known.
  std::optional<std::size_t> best(std::size_t variant, std::span<const RunOutcome> outcomes) const;
  void need_more(std::size_t variant, std::span<const RunOutcome> outcomes,
                 std::vector<Need>& needs) const;

  const std::vector<PlannedVariant>& variants_;
  Question question_;
  std::size_t reference_, seeds_;
  Judge judge_;
  std::function<std::string(std::span<const RunResult>)> why_open_;
  std::vector<PlannedRun> runs_;  ///< by variant, candidate, seed
};

}  // namespace headcount
