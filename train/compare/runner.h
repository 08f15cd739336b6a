#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "train/compare/comparison.h"
#include "train/options.h"
#include "train/ranks.h"
#include "train/trainer.h"

namespace headcount {

/// One training run of a comparison.
struct PlannedRun {
  std::string name;  ///< for progress: "gqa2, seed 3"
  TrainOptions options;
  std::filesystem::path folder;
  std::string command;  ///< command line that asked for the run, for its record
};

/// How the runs of a comparison share the machine. It changes no result.
struct Workers {
  int jobs = 1;     ///< runs side by side
  int threads = 1;  ///< threads of each run
  int ranks = 1;

  /// Divides `threads` among `runs`. `jobs` is the number of runs side by side; 0 takes as many as
  /// there are threads, since small models gain more from more runs than from more threads in each.
  static Workers share(int threads, Index jobs, std::size_t runs, int ranks = 1);
  /// Text such as "runs side by side: 2, threads of each: 1"; per rank if there are several ranks.
  std::string text() const;
};

/// How a run ended: with a result, or with the reason why there is none.
struct RunOutcome {
  bool ended = false;
  std::optional<RunResult> result;
  std::string failure;
  bool diverged = false;
  bool reused = false;  ///< finished by an earlier comparison
};

/// Decision whether to train a run.
enum class Need {
  now,
  maybe,  ///< other runs will tell; trained only where a job would be idle
  no,
};
/// Decision about each run, given the outcomes so far. `now` is final, and so is `no` after
/// `maybe`: such a run may have been begun and is then given up for good.
using Needs = std::function<std::vector<Need>(std::span<const RunOutcome>)>;

/// Observer of the runs of a comparison. Its functions are called from many threads.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  /// Called before any run is trained, and whenever a run has ended.
  virtual void update(const std::vector<PlannedRun>& runs, std::span<const RunOutcome> outcomes,
                      std::span<const Need> needs) = 0;
  /// Called after each training step of `run`.
  virtual void step(std::size_t run, const StepResult& result) = 0;
  /// Called once when `run` has ended, after the call of `update` that reports the end.
  virtual void finish(std::size_t run, const RunOutcome& outcome) = 0;
};

/// Arguments of `run_all`.
struct RunTask {
  const std::vector<PlannedRun>& runs;
  const Needs& needs;
  const Corpus& corpus;  ///< in a sweep, with the slice for tuning losses
  Workers workers;
  bool again = false;  ///< repeats finished runs
  /// Marks runs that other processes train; empty: none. Results and failures that these processes
  /// have already written to the runs' folders are used.
  std::vector<bool> elsewhere = {};
  Ranks& ranks = alone();  ///< ranks that share the runs
};

/// Relative durations of runs: trained characters times parameters, plus the number of attention
/// scores.
std::vector<double> work_of(const std::vector<PlannedRun>& runs, Index vocabulary);

/// Trains the runs that are needed, each as `headcount train` would, and writes result.json into
/// its folder when it has finished. A run whose folder already has a result.json of the same
/// settings and text is not repeated. A run that fails does not stop the others; a run that turns
/// out not to be needed is abandoned where it is. A signal caught at any rank (see interrupt.h)
/// stops all runs: those under way save a checkpoint and have no outcome. Such a run resumes from
/// its newest checkpoint, to the same bits, if program, settings and text are still the same;
/// otherwise it begins anew. Checkpoints are saved as `checkpoint-every` says, or every five
/// minutes. Ranks take runs from the queue of rank 0, which gets all outcomes; other ranks return
/// none. Throws OtherRunError if a folder holds a finished run of other settings or text, and
/// DataError for a damaged result.
std::vector<RunOutcome> run_all(const RunTask& task, RunWatcher& watcher);

}  // namespace headcount
