#include "train/run_folder.h"

#include <cerrno>

#include "models/durable.h"
#include "train/command_line.h"

namespace headcount {

namespace fs = std::filesystem;

namespace {

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw WriteError(path, error.value());
}

}  // namespace

RunFolder::RunFolder(fs::path path, const TrainOptions& options, bool force)
    : path_(std::move(path)) {
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_directory(path_, error)) {
    throw UsageError("--out " + path_.string() + " is a file; name a new folder");
  }
  if (fs::is_directory(path_, error) && !fs::is_empty(path_, error)) {
    if (!force) {
      throw UsageError("--out " + path_.string() +
                       " is not empty; name a new folder, or add --force to replace the run in it");
    }
    for (const char* ours :
         {"result.json", "config.json", "metrics.jsonl", "checkpoints", "samples"}) {
      fs::remove_all(path_ / ours, error);
      if (error) throw WriteError(path_ / ours, error.value());
    }
  }
  make_folder(path_ / "checkpoints");
  make_folder(path_ / "samples");
  write_file_durably(path_ / "config.json", to_json(options).dump(2) + "\n");
  metrics_.open(path_ / "metrics.jsonl");
  if (!metrics_) throw WriteError(path_ / "metrics.jsonl", errno);
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
  errno = 0;
  metrics_ << line.dump() << '\n' << std::flush;
  if (!metrics_) throw WriteError(path_ / "metrics.jsonl", errno);
}

fs::path default_run_folder(const TrainOptions& options) {
  const std::string name =
      "runs/" + fs::path(options.data).stem().string() + "-" + options.model.attention.kind;
  fs::path path = name;
  for (int i = 2; fs::exists(path); ++i) path = name + "-" + std::to_string(i);
  return path;
}

}  // namespace headcount
