#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/options.h"
#include "train/run_record.h"

/// Training runs that are there, finished or not: their settings, what they measured, step by step.

namespace headcount {

/// A line of metrics.jsonl. Names are those of the file, but for "loss", which is "train_loss".
using CurveRow = nlohmann::json;

struct RunCurves {
  std::string name;  ///< what tells its path from those of the other runs: "mha", "mha/seed-1"
  std::filesystem::path folder;
  TrainOptions options;
  RunRecord record;
  std::optional<Index> parameters;  ///< of the newest checkpoint; none before the first one
  std::vector<CurveRow> rows;       ///< by step, at least one

  Index steps_done() const;
  /// The newest value of that name, such as "val_loss"; none where it was never measured.
  std::optional<double> last(std::string_view key) const;
};

/// Reads the runs in these folders; at least one. Only whole lines of metrics.jsonl count: a run
/// may be going on. Throws DataError that names the folder or the file, and SettingError for a
/// folder that is named twice.
std::vector<RunCurves> read_runs(const std::vector<std::string>& folders);

/// For each run its name, folder, size, newest values and settings, and its curve: {"runs": [...]}.
nlohmann::ordered_json curves_json(const std::vector<RunCurves>& runs);

/// One line for each run and step, with a header (RFC 4180): run, step, train_loss, val_loss, ...
/// Nothing stands where a step did not measure something.
std::string curves_csv(const std::vector<RunCurves>& runs);

}  // namespace headcount
