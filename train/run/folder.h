#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/checkpoint/durable.h"
#include "models/language_model.h"
#include "train/evaluation.h"
#include "train/options.h"
#include "train/run/lock.h"
#include "train/run/state.h"
#include "train/trainer.h"

namespace headcount {

/// The files of one training run:
///   config.json     the settings; `headcount train --config` repeats the run
///   run.json        the text's hash, and each start of the program: see RunRecord
///   metrics.jsonl   one JSON object per step
///   checkpoints/    step-N/: see models/checkpoint/checkpoint.h and TrainingState; latest: the
///                   newest's name
///   samples/        step-N.txt
/// and for a comparison (train/compare/result_files.h):
///   result.json     what the run measured, once it has finished
///   unfinished.json what the run is, until then
///   failed.json     in a shard: why the run has no result
/// One process at a time writes it: see FolderLock.
class RunFolder {
 public:
  /// Creates the folder of a run that starts at step 0. Throws SettingError if it exists with
  /// anything in it, unless it is a run and `force` is set: then what runs write is removed from it
  /// first, and nothing else. Throws LockedError, WriteError.
  static RunFolder create(std::filesystem::path path, const TrainOptions& options,
                          const std::string& data_sha256, const std::string& command, bool force);

  /// Goes on with a run, locked before it was read, whose newest checkpoint, loaded already, has
  /// `state`. `steps` are those of the run, or more: then config.json has them from now on. Throws
  /// DataError if it was trained on another text than `data_sha256`, WriteError.
  static RunFolder resume(FolderLock lock, const TrainingState& state, Index steps,
                          const std::string& data_sha256, const std::string& command);

  const std::filesystem::path& path() const { return lock_.folder(); }
  std::filesystem::path checkpoint(Index step) const;
  std::filesystem::path sample(Index step) const;
  const TrainingState& state() const { return state_; }  ///< of the newest checkpoint
  /// What metrics.jsonl has lost of the steps before; empty if it has them all.
  const std::string& lost_metrics() const { return lost_metrics_; }

  /// Appends one line to metrics.jsonl. Nothing in it depends on the clock, so that equal runs have
  /// equal metrics. Throws WriteError.
  void log(const StepResult& result, const std::optional<Evaluation>& validation);

  /// The step under way ends with a checkpoint, whether or not one is due.
  void want_checkpoint() { wants_checkpoint_ = true; }
  bool wants_checkpoint() const { return wants_checkpoint_; }

  /// Saves the checkpoint of `step`. Once it is on the disk, older ones are removed, but for the
  /// `keep` newest and the best. Throws WriteError; then the checkpoints before are still there.
  void save(Index step, std::optional<double> validation_loss, const Learner& learner,
            const Vocabulary& vocabulary, Index keep);

  /// Saves the checkpoint of a step whose evaluation was stopped and that is not logged: who goes
  /// on evaluates it first, and then logs it and saves it again. Throws WriteError.
  void save_unevaluated(const StepResult& result, const Learner& learner,
                        const Vocabulary& vocabulary, Index keep);

 private:
  RunFolder(FolderLock lock, const TrainingState& state);
  void save(const TrainingState& next, const Learner& learner, const Vocabulary& vocabulary,
            Index keep);
  // Removes the checkpoint of a step; `successor`, if not empty, takes its place.
  void remove_checkpoint(Index step, const std::filesystem::path& successor) const;
  void remove_old(Index keep) const;

  FolderLock lock_;
  TrainingState state_;
  std::unique_ptr<DurableFile> metrics_;
  std::uint64_t metrics_bytes_ = 0;
  std::string lost_metrics_;
  bool wants_checkpoint_ = false;
};

}  // namespace headcount
