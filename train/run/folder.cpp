#include "train/run/folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "autograd/base/files.h"
#include "models/checkpoint/checkpoint.h"
#include "train/run/loaded.h"
#include "train/run/place.h"
#include "train/run/record.h"

namespace headcount {

namespace fs = std::filesystem;

namespace {

void write_options(const fs::path& path, const TrainOptions& options) {
  write_file_durably(path / "config.json", to_json(options).dump(2) + "\n");
}

// Length in bytes from which metrics.jsonl is continued: `bytes`, which the newest checkpoint
// records, or the length of its complete lines if the file is shorter than that.
std::uint64_t kept_metrics(const fs::path& path, std::uint64_t bytes) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) return 0;
  if (error || size >= bytes) return bytes;
  return size == 0 ? 0 : read_file(path).rfind('\n') + 1;
}

}  // namespace

RunFolder::RunFolder(FolderLock lock, const TrainingState& state, Index keep)
    : lock_(std::move(lock)), state_(state), keep_(keep) {
  make_folder(path() / kCheckpoints);
  make_folder(path() / "samples");
  const fs::path metrics = path() / "metrics.jsonl";
  metrics_bytes_ = kept_metrics(metrics, state.metrics_bytes);
  if (metrics_bytes_ < state.metrics_bytes) {
    lost_metrics_ = metrics.string() + " has only " + std::to_string(metrics_bytes_) + " of the " +
                    std::to_string(state.metrics_bytes) + " bytes that it had at step " +
                    std::to_string(state.step) + "; the lines that are missing stay missing";
  }
  // Cuts off the lines of steps after the checkpoint, since they will be trained again.
  metrics_ = std::make_unique<DurableFile>(metrics, metrics_bytes_);
}

RunFolder RunFolder::create(FolderLock lock, const TrainOptions& options,
                            const std::string& data_sha256, const std::string& command) {
  const fs::path& path = lock.folder();
  // config.json is written last: a folder that has it can be resumed.
  record_start(path, {.data_sha256 = data_sha256, .seed = options.seed, .starts = {}}, 0,
               options.steps, command);
  write_options(path, options);
  return {std::move(lock), {}, options.keep};
}

RunFolder RunFolder::resume(FolderLock lock, const TrainingState& state, Index steps,
                            const Corpus& corpus, const std::string& command) {
  const fs::path path = lock.folder();
  require_own_text(corpus, path);
  TrainOptions options = read_run_options(path);
  if (options.steps != steps) {
    options.steps = steps;
    write_options(path, options);
  }
  record_start(path, read_run_record(path), state.step, steps, command);
  return {std::move(lock), state, options.keep};
}

fs::path RunFolder::checkpoint(Index step) const { return checkpoint_of(path(), step); }

fs::path RunFolder::sample(Index step) const {
  return path() / "samples" / ("step-" + std::to_string(step) + ".txt");
}

void RunFolder::log(const StepResult& result, const std::optional<Evaluation>& validation,
                    bool stopped) {
  nlohmann::ordered_json line = to_json(result);
  if (validation) {
    line["val_loss"] = validation->loss;
    line["val_accuracy"] = validation->accuracy;
    if (validation->answer_accuracy) line["val_answer_accuracy"] = *validation->answer_accuracy;
  }
  if (stopped) line["stopped"] = true;
  const std::string text = line.dump() + "\n";
  metrics_->write(text);
  metrics_bytes_ += text.size();
  if (std::exchange(untried_, false)) remove_old();
}

void RunFolder::save(const Learner& learner, const StepResult& result,
                     std::optional<double> validation_loss, bool stopped) {
  if (stopped && state_.unevaluated) return;  // stopped again in the same evaluation
  TrainingState next = state_;
  next.step = result.step;
  next.validation_loss = validation_loss;
  next.unevaluated = stopped ? std::optional(result) : std::nullopt;
  if (validation_loss && *validation_loss < next.best.loss)
    next.best = {next.step, *validation_loss};
  next.metrics_bytes = metrics_bytes_;
  const auto save_in = [&](const fs::path& folder) {
    save_checkpoint(folder, *learner.model, learner.vocabulary, [&](const fs::path& staging) {
      write_training_state(staging, next, learner.model->parameters(), *learner.optimizer);
    });
  };
  // Written in this order: the metrics, whose length the checkpoint records; the checkpoint; the
  // file `latest`, which names the checkpoint.
  metrics_->flush();
  const fs::path folder = checkpoint(next.step), again = path() / kCheckpoints / kAgain;
  if (state_.unevaluated && state_.step == next.step) {
    erase(again);
    save_in(again);
    remove_checkpoint(next.step, again);
  } else {
    save_in(folder);
  }
  write_latest(folder);
  state_ = next;
  wants_checkpoint_ = false;
  untried_ = !next.validation_loss;
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

void RunFolder::remove_checkpoint(Index step, const fs::path& successor) const {
  // Renames the folder before it deletes it: half of a checkpoint must not look like a checkpoint.
  const fs::path old = checkpoint(step), removed = path() / kCheckpoints / kRemoved;
  std::error_code error;
  fs::remove_all(removed, error);
  if (!error) fs::rename(old, removed, error);
  if (!error && !successor.empty()) fs::rename(successor, old, error);
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
