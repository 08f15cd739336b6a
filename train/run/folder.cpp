#include "train/run/folder.h"

#include <utility>

#include "models/checkpoint/checkpoint.h"
#include "train/run/loaded.h"
#include "train/run/place.h"
#include "train/run/record.h"

namespace headcount {

namespace fs = std::filesystem;

RunFolder::RunFolder(FolderLock lock, const TrainingState& state, Index keep)
    : lock_(std::move(lock)), state_(state), keep_(keep) {
  make_folder(path() / kCheckpoints);
  make_folder(path() / "samples");
  const Index last = state.logged.step.step;
  if (last < state.step) {
    lost_metrics_ = metrics_file().string() + " ends at step " + std::to_string(last) +
                    " instead of " + std::to_string(state.step) +
                    "; the lines that are missing stay missing";
  }
  // Cuts off the lines of steps after the checkpoint, since they will be trained again.
  metrics_ = std::make_unique<DurableFile>(metrics_file(), state.logged.end);
}

RunFolder RunFolder::create(FolderLock lock, const TrainOptions& options,
                            const std::string& data_sha256, const std::string& command) {
  RunRecord record;
  record.data_sha256 = data_sha256;
  record_start(lock.folder(), std::move(record), options, 0, command);
  return {std::move(lock), {}, options.keep};
}

RunFolder RunFolder::resume(FolderLock lock, const TrainingState& state,
                            const TrainOptions& options, const Corpus& corpus,
                            const std::string& command) {
  const fs::path path = lock.folder();
  require_own_text(corpus, path);
  record_start(path, read_run_record(path), options, state.step, command);
  return {std::move(lock), state, options.keep};
}

fs::path RunFolder::checkpoint(Index step) const { return checkpoint_of(path(), step); }

fs::path RunFolder::sample(Index step) const {
  return path() / "samples" / ("step-" + std::to_string(step) + ".txt");
}

void RunFolder::log(const StepResult& result, const std::optional<Evaluation>& validation,
                    bool stopped) {
  LoggedStep line{result};
  if (validation) {
    line.validation_loss = validation->loss;
    line.accuracy = validation->accuracy;
    line.answer_accuracy = validation->answer_accuracy;
  }
  if (stopped) line.stopped = true;
  metrics_->write(json_of(line).dump() + "\n");
  // The loss is that of the weights before the step, which the newest checkpoint holds if it is
  // untried.
  if (std::exchange(untried_, false)) remove_old();
}

void RunFolder::save(const Learner& learner, const StepResult& result,
                     std::optional<double> validation_loss) {
  if (validation_loss && *validation_loss < state_.best.loss)
    state_.best = {result.step, *validation_loss};
  // Written in this order: the metrics up to the checkpoint, the checkpoint, and the file `latest`,
  // which names it.
  metrics_->flush();
  const fs::path folder = checkpoint(result.step);
  const auto write_state = [&](const fs::path& staging) {
    write_training_state(staging, result.step, learner.model->parameters(), *learner.optimizer);
  };
  save_checkpoint(folder, *learner.model, learner.vocabulary, learner.documents, write_state);
  write_latest(folder);
  state_.step = result.step;
  wants_checkpoint_ = false;
  untried_ = !validation_loss;
  if (!untried_) remove_old();
}

void RunFolder::write_latest(const fs::path& checkpoint) const {
  write_file_durably(path() / kCheckpoints / "latest", checkpoint.filename().string() + "\n");
}

void RunFolder::diverged() {
  const std::vector<fs::path> all = checkpoints_of(path());
  if (!untried_ || state_.step == state_.best.step || all.size() < 2) return;
  write_latest(all[1]);
  remove_checkpoint(state_.step);
}

void RunFolder::remove_checkpoint(Index step) const {
  // Renames the folder before it deletes it: half of a checkpoint must not look like a checkpoint.
  const fs::path old = checkpoint(step), removed = path() / kCheckpoints / ".removed";
  std::error_code error;
  fs::remove_all(removed, error);
  if (!error) fs::rename(old, removed, error);
  if (!error) fs::remove_all(removed, error);
  if (error) throw WriteError(old, error.value());
}

void RunFolder::remove_old() const {
  Index others = 0;
  for (const fs::path& checkpoint : checkpoints_of(path())) {
    const Index step = *step_of(checkpoint);
    if (step != state_.best.step && ++others > keep_) remove_checkpoint(step);
  }
}

}  // namespace headcount
