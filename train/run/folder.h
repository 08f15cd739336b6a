#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "models/checkpoint/durable.h"
#include "train/options.h"
#include "train/run/lock.h"
#include "train/run/place.h"
#include "train/run/state.h"
#include "train/training.h"

namespace headcount {

/// The files of one training run:
///     run.json       what the run is, its starts and how it ended: see RunRecord;
///                    `headcount train --config` repeats the run
///     metrics.jsonl  one JSON object per step
///     checkpoints/   step-N/: see models/checkpoint/checkpoint.h and TrainingState;
///                    latest: the name of the newest
///     samples/       step-N.txt
/// One process at a time writes the folder: see FolderLock.
class RunFolder : public TrainingLog {
 public:
  /// Begins a run at step 0 in a folder without an earlier one: see lock_for_new_run. Throws
  /// WriteError.
  static RunFolder create(FolderLock lock, const TrainOptions& options,
                          const std::string& data_sha256, const std::string& command);

  /// Continues a run from its newest checkpoint, whose training state is `state`. The caller locks
  /// the folder before it reads the state. `options` are the run's, perhaps with more steps or new
  /// paths of its text, which run.json then gets. Throws WriteError, and DataError if the
  /// run was trained on another text.
  static RunFolder resume(FolderLock lock, const TrainingState& state, const TrainOptions& options,
                          const Corpus& corpus, const std::string& command);

  const std::filesystem::path& path() const { return lock_.folder(); }
  std::filesystem::path checkpoint(Index step) const;
  std::filesystem::path sample(Index step) const;
  /// Note on lines that metrics.jsonl lacks before the newest checkpoint; empty if it lacks none.
  const std::string& lost_metrics() const { return lost_metrics_; }

  Position position() const override { return state_; }

  /// Appends one line to metrics.jsonl. Nothing in it depends on the clock, so that equal runs have
  /// equal metrics. Throws WriteError.
  void log(const StepResult& result, const std::optional<Evaluation>& validation,
           bool stopped) override;

  /// Makes the step under way end with a checkpoint, even if none is due.
  void want_checkpoint() { wants_checkpoint_ = true; }
  bool wants_checkpoint() const override { return wants_checkpoint_; }

  /// Saves a checkpoint. Once it is on the disk and an evaluation, or the next line of the log, has
  /// shown that its weights give finite losses, older ones are removed, except the best and as many
  /// of the newest as the setting `keep` says. Throws WriteError, and DataError if the folder of
  /// checkpoints cannot be read; earlier checkpoints are then still there.
  void save(const Learner& learner, const StepResult& result,
            std::optional<double> validation_loss) override;

  /// Removes the newest checkpoint if no loss was computed from its weights before the run
  /// diverged: they may be what diverged. The checkpoint before it, if any, is then the newest.
  /// Throws WriteError, DataError.
  void diverged() override;

 private:
  RunFolder(FolderLock lock, const TrainingState& state, Index keep);
  std::filesystem::path metrics_file() const { return path() / "metrics.jsonl"; }
  void write_latest(const std::filesystem::path& checkpoint) const;
  void remove_checkpoint(Index step) const;
  void remove_old() const;

  FolderLock lock_;
  TrainingState state_;  // of the newest checkpoint; `logged`: where the run was resumed
  Index keep_;
  std::unique_ptr<DurableFile> metrics_;
  std::string lost_metrics_;
  bool wants_checkpoint_ = false;
  bool untried_ = true;  // whether the newest checkpoint has given no loss yet
};

}  // namespace headcount
