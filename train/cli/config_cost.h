#pragma once

#include "train/cache_cost.h"
#include "train/cli/command_line.h"

namespace headcount {

/// `cost --config`: what the KV cache of other people's model costs, from its config.json. `line`
/// has the flag `config`, the path of the file or of its folder, or "-" for standard input. Throws
/// DataError for a configuration that cannot be read, UsageError for flags.
CostAnswer cost_of_config(const CommandLine& line);

/// `cost --list`: all released models, with their caches in bf16.
CostAnswer costs_of_released_models();

}  // namespace headcount
