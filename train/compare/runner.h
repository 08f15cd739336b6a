#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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
  std::string command;  ///< for the record of the run: what asked for it
};

/// How the runs of a comparison share the machine; none of it changes a result.
struct Workers {
  int jobs = 1;     ///< runs side by side
  int threads = 1;  ///< of each run
  int ranks = 1;

  /// Runs side by side as far as there are threads: small models gain more from runs of their own
  /// than from threads. `jobs` 0 chooses.
  static Workers share(int threads, Index jobs, std::size_t runs, int ranks = 1);
  /// "runs side by side: 2, threads of each: 1"; of each rank where there are several
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

/// Whether a run is to be trained.
enum class Need {
  now,
  maybe,  ///< other runs will tell; trained only where a job would be idle
  no,
};
/// Of each run, given how those that have ended did. A run that is needed, or that is not, stays so
/// whatever ends later.
using Needs = std::function<std::vector<Need>(std::span<const RunOutcome>)>;

/// Sees the runs of a comparison as they go, from many threads.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  /// Before any run is trained, and whenever one has ended.
  virtual void update(const std::vector<PlannedRun>& runs, std::span<const RunOutcome> outcomes,
                      std::span<const Need> needs) = 0;
  virtual void step(std::size_t run, const StepResult& result) = 0;
  /// After the update that follows from it.
  virtual void finish(std::size_t run, const RunOutcome& outcome) = 0;
};

/// What `run_all` is to do.
struct RunTask {
  const std::vector<PlannedRun>& runs;
  const Needs& needs;
  const Corpus& corpus;
  std::span<const std::int32_t> tuning;  ///< if not empty, evaluated too
  Workers workers;
  bool again = false;  ///< finished runs are repeated
  /// If not empty: which runs other processes train. What they left in the runs' folders, failures
  /// too, counts as it is now.
  std::vector<bool> elsewhere = {};
  Ranks& ranks = alone();  ///< who shares the runs
};

/// How long a run takes compared with others: its characters times its parameters, and the scores
/// of its attention.
double work_of(const TrainOptions& options, Index vocabulary);

/// Trains the runs that are needed, each as `headcount train` would, and writes result.json into
/// its folder when it has finished: a run whose folder has one, of the same settings and text, is
/// not repeated. A run that fails does not stop the others; one that turns out not to be needed
/// is left where it is. A signal that was caught (see interrupt.h) at any rank stops all: runs
/// under way save a checkpoint, and have no outcome. Such a run goes on from its newest checkpoint,
/// to the same bits, if this program, its settings and its text are still the same; otherwise it
/// begins anew. Checkpoints are saved where `checkpoint-every` says, or every five minutes. Ranks
/// take runs from the queue of rank 0, which gets all outcomes; the others return none. Throws
/// OtherRunError if a folder holds a finished run of other settings or text, and DataError for a
/// damaged one.
std::vector<RunOutcome> run_all(const RunTask& task, RunWatcher& watcher);

}  // namespace headcount
