#include "train/loaded_run.h"

#include "data/text.h"

namespace headcount {

LoadedRun load_run(const std::string& path, std::optional<Index> window) {
  LoadedRun run;
  const std::filesystem::path folder = find_checkpoint(path);
  Checkpoint checkpoint = load_checkpoint(folder, window);
  run.model = std::move(checkpoint.model);
  try {
    run.vocabulary = Vocabulary(checkpoint.symbols);
  } catch (const DataError& error) {
    throw DataError((folder / "config.json").string() + ": " + error.what());
  }
  if (folder == std::filesystem::path(path)) return run;
  const std::filesystem::path config = std::filesystem::path(path) / "config.json";
  try {
    TrainOptions options;
    options.settings().read(nlohmann::json::parse(read_file(config)));
    options.resolve();
    run.options = options;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(config.string() + " is not valid JSON: " + error.what());
  } catch (const DataError&) {
    throw;
  } catch (const Error& error) {
    throw DataError(config.string() + ": " + error.what());
  }
  return run;
}

}  // namespace headcount
