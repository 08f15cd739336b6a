#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "train/options.h"
#include "train/trainer.h"

namespace headcount {

/// The files of one training run:
///   config.json     the settings; `headcount train --config` repeats the run
///   metrics.jsonl   one JSON object per step
///   checkpoints/    step-N/: weights and model settings
///   samples/        step-N.txt
///   result.json     of a comparison: what the run measured, once it has finished
class RunFolder {
 public:
  /// Creates the folder and writes config.json. Throws UsageError if it exists with anything in it,
  /// unless `force`: then what an earlier run left in it is removed first. Throws WriteError.
  RunFolder(std::filesystem::path path, const TrainOptions& options, bool force);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoint(Index step) const;
  std::filesystem::path sample(Index step) const;

  /// Appends one line to metrics.jsonl. Nothing in it depends on the clock, so that equal runs have
  /// equal metrics. Throws WriteError.
  void log(const StepResult& result, const std::optional<Evaluation>& validation);

 private:
  std::filesystem::path path_;
  std::ofstream metrics_;
};

/// runs/DATA-ATTENTION, or with -2, -3, ... the first that does not exist.
std::filesystem::path default_run_folder(const TrainOptions& options);

}  // namespace headcount
