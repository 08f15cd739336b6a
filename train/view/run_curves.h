#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/options.h"
#include "train/run/record.h"
#include "train/table.h"

/// Training runs read from their folders, finished or not: settings and measurements, step by step.

namespace headcount {

/// A line of metrics.jsonl. Names are those of the file, except that "loss" becomes "train_loss".
using CurveRow = nlohmann::json;

struct RunCurves {
  std::string name;  ///< part of its path that differs among the runs: "mha", "mha/seed-1"
  std::filesystem::path folder;
  TrainOptions options;
  RunRecord record;
  std::optional<Index> parameters;  ///< from the newest checkpoint; none before the first
  std::vector<CurveRow> rows;       ///< by step, at least one

  Index steps_done() const;
  /// The newest value named `key`, such as "val_loss"; none if it was never measured.
  std::optional<double> last(std::string_view key) const;
};

/// Reads the runs in these folders, at least one. Only whole lines of metrics.jsonl count, since a
/// run may still be writing. Throws DataError that names the folder or the file, and SettingError
/// for a folder that is named twice.
std::vector<RunCurves> read_runs(const std::vector<std::string>& folders);

/// JSON {"runs": [...]} with each run's name, folder, size, newest values, settings, curve and
/// starts.
nlohmann::ordered_json curves_json(const std::vector<RunCurves>& runs);

/// Table for people with one row per run: name, attention, size and newest measurements.
std::string runs_table(const std::vector<RunCurves>& runs, Format format = Format::text);

/// CSV (RFC 4180) with a header and one line per run and step: run, step, train_loss, val_loss, ...
/// A value that a step did not measure is empty.
std::string curves_csv(const std::vector<RunCurves>& runs);

}  // namespace headcount
