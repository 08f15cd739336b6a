#include "train/loaded_run.h"

#include "data/text.h"

namespace headcount {

TrainOptions read_run_options(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / "config.json";
  const std::string text = read_file(path);
  try {
    TrainOptions options;
    options.settings().read(parse_json(text));
    options.resolve();
    return options;
  } catch (const Error& error) {
    throw DataError(path.string() + ": " + error.what());
  }
}

LoadedRun load_run(const std::string& path, std::optional<Index> window) {
  LoadedRun run;
  const std::optional<std::filesystem::path> folder = find_checkpoint(path);
  if (!folder) {
    throw DataError("'" + path +
                    "' is no run folder and no checkpoint: it has neither checkpoints/step-N nor "
                    "model.safetensors");
  }
  Checkpoint checkpoint = load_checkpoint(*folder, window);
  run.model = std::move(checkpoint.model);
  run.vocabulary = std::move(checkpoint.vocabulary);
  if (*folder == std::filesystem::path(path)) return run;
  run.options = read_run_options(path);
  return run;
}

}  // namespace headcount
