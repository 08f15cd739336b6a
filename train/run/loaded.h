#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/vocabulary.h"
#include "models/checkpoint/checkpoint.h"
#include "train/options.h"

namespace headcount {

/// What `--from RUN` names: a trained model with its vocabulary and, if RUN is a run folder, the
/// options it was trained with.
struct LoadedRun {
  std::unique_ptr<LanguageModel> model;
  Vocabulary vocabulary;
  std::optional<TrainOptions> options;
};

/// The options of the run in a folder, resolved. Throws DataError.
TrainOptions read_run_options(const std::string& folder);

/// The options of the run in `folder` with relative paths as they lead to the same files from here:
/// in the directory that the run was started in, or else in this one. Throws DataError if the text
/// is in neither.
TrainOptions found_from_here(TrainOptions options, const std::filesystem::path& folder);

/// Throws DataError, with what to do, unless `corpus` is of the text that the run in `folder` was
/// trained on.
void require_own_text(const Corpus& corpus, const std::filesystem::path& folder);

/// The checkpoints of the same run that are older than `newest`, from new to old.
std::vector<std::filesystem::path> older_checkpoints(const std::filesystem::path& newest);

/// Of a run folder the newest checkpoint, as `load` reads it, or of a checkpoint folder itself;
/// there is one. Throws DataError: where an older checkpoint loads, the message names it.
template <class Load>
auto load_newest(const std::filesystem::path& folder, const Load& load) {
  const std::filesystem::path newest = *find_checkpoint(folder);
  try {
    return load(newest);
  } catch (const DataError& error) {
    for (const std::filesystem::path& older : older_checkpoints(newest)) {
      try {
        load(older);
      } catch (const Error&) {
        continue;
      }
      throw DataError(std::string(error.what()) + "; " + older.string() +
                      " is whole: to go on from it, remove " + newest.string());
    }
    throw;
  }
}

/// Reads a run folder (its newest checkpoint) or a checkpoint folder. Throws DataError.
LoadedRun load_run(const std::string& path);

}  // namespace headcount
