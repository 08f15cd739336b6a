#pragma once

#include <optional>
#include <string>

#include "data/vocabulary.h"
#include "models/checkpoint.h"
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

/// Reads a run folder (its newest checkpoint) or a checkpoint folder; `window` as in
/// `load_checkpoint`. Throws DataError.
LoadedRun load_run(const std::string& path, std::optional<Index> window = std::nullopt);

}  // namespace headcount
