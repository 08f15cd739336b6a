#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/cache_cost.h"
#include "train/cli/command_line.h"

namespace headcount {

/// What `cost` says.
struct CostAnswer {
  std::string title;                        ///< of a page
  std::function<std::string(Format)> text;  ///< tables with sentences, as text or as Markdown
  nlohmann::ordered_json json, rows;        ///< for programs; of it, the rows of a table
  nlohmann::ordered_json figures = {};      ///< what train/view/cost.js draws
};

/// `cost --config`: what the KV cache of other people's model costs, from its config.json. `line`
/// has the flag `config`, the path of the file or of its folder, or "-" for standard input. Throws
/// DataError for a configuration that cannot be read, UsageError for flags.
CostAnswer cost_of_config(const CommandLine& line);

/// `cost --list`: all released models, with their caches in bf16.
CostAnswer costs_of_released_models();

}  // namespace headcount
