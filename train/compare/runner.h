#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "data/corpus.h"
#include "train/compare/comparison.h"
#include "train/options.h"
#include "train/run/lock.h"
#include "train/training.h"

namespace headcount {

/// One training run of a comparison: what is trained, and where.
struct RunPlan {
  std::string name;  ///< for progress: "gqa2, seed 3"
  TrainOptions options;
  std::filesystem::path folder;
  std::string command;  ///< command line that asked for the run, for its record
};

/// Whether and how a run ended: with a result, or with the reason why there is none.
struct RunStatus {
  bool ended = false;
  std::optional<RunResult> result;
  std::string failure;
  bool diverged = false;
};

/// How the runs of a comparison share the machine. It changes no result.
struct Workers {
  int jobs = 1;     ///< runs side by side
  int threads = 1;  ///< threads of each run

  /// Divides `threads` among `runs`. `jobs` is the number of runs side by side; 0 takes as many as
  /// there are threads, since small models gain more from more runs than from more threads in each.
  static Workers share(int threads, Index jobs, std::size_t runs);
  /// Text such as "runs side by side: 2, threads of each: 1".
  std::string text() const;
};

/// Trains a run in its folder, which `lock` locks, as `headcount train` would, and records its
/// result when it has finished. The run resumes from its newest checkpoint, to the same bits,
/// if an earlier process left it unfinished and program, settings and text are still the same;
/// otherwise it begins anew. Checkpoints are saved as `checkpoint-every` says, or every five
/// minutes. Throws what train_to_end, RunFolder and write_run_result throw.
RunResult train_run(const RunPlan& run, const Corpus& corpus, const Workers& workers,
                    const FolderLock& lock, const StepObserver& observe);

}  // namespace headcount
