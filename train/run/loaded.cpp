#include "train/run/loaded.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "train/run/record.h"

namespace headcount {

TrainOptions read_run_options(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / "config.json";
  const std::string text = read_file(path);
  try {
    return resolve_training(Given(training_settings(), parse_json(text)));
  } catch (const Error& error) {
    throw DataError(path.string() + ": " + error.what());
  }
}

TrainOptions found_from_here(TrainOptions options, const std::filesystem::path& folder) {
  std::string directory;
  try {
    directory = read_run_record(folder).working_directory;
  } catch (const DataError&) {  // what is wrong with it is said where it is needed
  }
  std::error_code error;
  const auto found = [&](const std::string& path) {
    const std::filesystem::path there = std::filesystem::path(directory) / path;
    return std::filesystem::exists(there, error) ? there.string() : path;
  };
  if (!options.init.empty()) options.init = found(options.init);
  if (find_built_in(options.data) != nullptr) return options;
  const std::string data = found(options.data);
  if (!std::filesystem::exists(data, error)) {
    throw DataError("the text of " + folder.string() + ", '" + options.data + "', is not here" +
                    (directory.empty() ? "" : " and no longer in " + directory) +
                    "; bring it back, or run this where it is");
  }
  options.data = data;
  return options;
}

void require_own_text(const Corpus& corpus, const std::filesystem::path& folder) {
  const std::string trained_on = read_run_record(folder).data_sha256;
  if (corpus.sha256 == trained_on) return;
  throw DataError(corpus.name + " is no longer the text of this run: its SHA-256 was " +
                  trained_on + ", it is now " + corpus.sha256 +
                  "; give the old text back, or name a text with `data`");
}

std::vector<std::filesystem::path> older_checkpoints(const std::filesystem::path& newest) {
  std::vector<std::filesystem::path> older;
  const std::optional<Index> step = step_of(newest);
  if (!step) return older;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(newest.parent_path(), error)) {
    const std::optional<Index> other = step_of(entry.path());
    if (other && *other < *step) older.push_back(entry.path());
  }
  std::ranges::sort(older, std::greater(), step_of);
  return older;
}

LoadedRun load_run(const std::string& path) {
  LoadedRun run;
  const std::optional<std::filesystem::path> folder = find_checkpoint(path);
  if (!folder) {
    throw DataError("'" + path +
                    "' is no run folder and no checkpoint: it has neither checkpoints/step-N nor "
                    "model.safetensors");
  }
  Checkpoint checkpoint = load_newest(path, load_checkpoint);
  run.model = std::move(checkpoint.model);
  run.vocabulary = std::move(checkpoint.vocabulary);
  if (*folder == std::filesystem::path(path)) return run;
  run.options = read_run_options(path);
  return run;
}

}  // namespace headcount
