#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/show/table.h"

/// Training runs read from their folders, finished or not: settings and measurements, step by step.

namespace headcount {

/// Reads the runs in these folders: {"runs": [...]} with each run's name, which is the part of its
/// path that differs ("mha/seed-1"), its folder, size, newest values, settings, starts and curve. A
/// point of the curve is a line of metrics.jsonl. Only whole lines count, since a run may still be
/// writing. Throws DataError that names the folder or the file, and SettingError for a folder that
/// is named twice.
nlohmann::ordered_json read_runs(const std::vector<std::string>& folders);

/// As `--format` says: a table for people with one row per run, its name, attention, size and
/// newest measurements, at most `width` wide if that is not 0; JSON, `curves` itself; or CSV with a
/// line for each run and step.
std::string runs_table(const nlohmann::ordered_json& curves, Format format = Format::text,
                       std::size_t width = 0);

}  // namespace headcount
