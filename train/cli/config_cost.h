#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/cache_cost.h"
#include "train/cli/command_line.h"

namespace headcount {

/// `cost --config`: prints what the KV cache of other people's model costs, from its config.json,
/// and writes the page of `--report`. `line` has the flag `config`, the path of the file or of its
/// folder, or "-" for standard input. Throws DataError for a configuration that cannot be read,
/// UsageError for flags.
void print_config_cost(const CommandLine& line);

/// `cost --list`: prints all released models, with their caches in bf16.
void print_released_models(Format format);

/// Prints results: tables, lines of CSV, or JSON.
void print_as(Format format, const std::function<std::string(Format)>& text,
              const std::vector<std::string>& csv,
              const std::function<nlohmann::ordered_json()>& json);

/// Flags of `cost` that go with --config.
const std::vector<Flag>& config_cost_flags();

/// Writes a page with a table and its figures, what train/view/cost.js draws, to the file that
/// --report names, if it was given.
void write_cost_report(const CommandLine& line, const std::string& title,
                       const std::function<std::string(Format)>& table,
                       const nlohmann::ordered_json& figures);

}  // namespace headcount
