#include "train/run_folder.h"

#include <algorithm>

#include "models/checkpoint.h"
#include "train/command_line.h"
#include "train/run_record.h"

namespace headcount {

namespace fs = std::filesystem;

namespace {

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw WriteError(path, error.value());
}

void remove_run(const fs::path& path) {
  // result.json first: what says that the run has finished must not outlive the run.
  for (const char* ours :
       {"result.json", "config.json", "run.json", "metrics.jsonl", "checkpoints", "samples"}) {
    std::error_code error;
    fs::remove_all(path / ours, error);
    if (error) throw WriteError(path / ours, error.value());
  }
}

}  // namespace

RunFolder::RunFolder(fs::path path, const TrainingState& state)
    : path_(std::move(path)), state_(state), metrics_bytes_(state.metrics_bytes) {
  make_folder(path_ / "checkpoints");
  make_folder(path_ / "samples");
  // Lines of steps that no checkpoint reached are written again.
  metrics_ = std::make_unique<DurableFile>(path_ / "metrics.jsonl", metrics_bytes_);
}

RunFolder RunFolder::create(fs::path path, const TrainOptions& options,
                            const std::string& data_sha256, const std::string& command,
                            bool force) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error))
    throw UsageError("--out " + path.string() + " is a file; name a new folder");
  if (fs::is_directory(path, error) && !fs::is_empty(path, error)) {
    if (!force) {
      throw UsageError("--out " + path.string() +
                       " is not empty; name a new folder, add --force to replace the run in it, or "
                       "go on with that run by --resume " +
                       shell_word(path.string()));
    }
    remove_run(path);
  }
  make_folder(path);
  // config.json last: where it is, the run can be resumed.
  record_start(path, {data_sha256, options.seed, {}}, 0, command);
  write_file_durably(path / "config.json", to_json(options).dump(2) + "\n");
  return {std::move(path), {}};
}

RunFolder RunFolder::resume(fs::path path, const TrainingState& state,
                            const std::string& data_sha256, const std::string& command) {
  RunRecord record = read_run_record(path);
  if (record.data_sha256 != data_sha256) {
    throw DataError(path.string() + " was trained on another text: its SHA-256 was " +
                    record.data_sha256 + ", the text now has " + data_sha256);
  }
  record_start(path, std::move(record), state.step, command);
  return {std::move(path), state};
}

fs::path RunFolder::checkpoint(Index step) const {
  return path_ / "checkpoints" / ("step-" + std::to_string(step));
}

fs::path RunFolder::sample(Index step) const {
  return path_ / "samples" / ("step-" + std::to_string(step) + ".txt");
}

void RunFolder::log(const StepResult& result, const std::optional<Evaluation>& validation) {
  nlohmann::ordered_json line = {{"step", result.step},
                                 {"loss", result.loss},
                                 {"lr", result.learning_rate},
                                 {"grad_norm", result.gradient_norm}};
  if (validation) {
    line["val_loss"] = validation->loss;
    line["val_accuracy"] = validation->accuracy;
    if (validation->answer_accuracy) line["val_answer_accuracy"] = *validation->answer_accuracy;
  }
  const std::string text = line.dump() + "\n";
  metrics_->write(text);
  metrics_bytes_ += text.size();
}

void RunFolder::save(Index step, std::optional<double> validation_loss, LanguageModel& model,
                     const Vocabulary& vocabulary, Index keep) {
  TrainingState next = state_;
  next.step = step;
  next.metrics_bytes = metrics_bytes_;
  next.validation_loss = validation_loss;
  if (validation_loss && (!next.best_loss || *validation_loss < *next.best_loss)) {
    next.best_loss = validation_loss;
    next.best_step = step;
  }
  // First what the checkpoint speaks of, then the checkpoint, then what speaks of it.
  metrics_->flush();
  const fs::path folder = checkpoint(step);
  save_checkpoint(folder, model, vocabulary, [&](const fs::path& staging) {
    write_training_state(staging, next, model.parameters());
  });
  write_file_durably(path_ / "checkpoints" / "latest", folder.filename().string() + "\n");
  state_ = next;
  remove_old(keep);
}

void RunFolder::remove_old(Index keep) const {
  std::vector<Index> steps;
  for (const auto& entry : fs::directory_iterator(path_ / "checkpoints")) {
    const std::optional<Index> step = step_of(entry.path());
    if (step && step != state_.best_step) steps.push_back(*step);
  }
  std::ranges::sort(steps, std::greater());
  for (std::size_t i = static_cast<std::size_t>(keep); i < steps.size(); ++i) {
    // Renamed first: half of a checkpoint must not look like one.
    const fs::path old = checkpoint(steps[i]), removed = path_ / "checkpoints" / ".removed";
    std::error_code error;
    fs::remove_all(removed, error);
    if (!error) fs::rename(old, removed, error);
    if (!error) fs::remove_all(removed, error);
    if (error) throw WriteError(old, error.value());
  }
}

fs::path default_run_folder(const TrainOptions& options) {
  const std::string name =
      "runs/" + fs::path(options.data).stem().string() + "-" + options.model.attention.kind;
  fs::path path = name;
  for (int i = 2; fs::exists(path); ++i) path = name + "-" + std::to_string(i);
  return path;
}

}  // namespace headcount
