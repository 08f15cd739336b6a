#pragma once

#include <string>
#include <vector>

#include "models/config_cache.h"
#include "train/cli/command_line.h"

namespace headcount {

/// `cost --config`: prints what the KV cache of other people's model costs, from its config.json.
/// `line` has the flag `config`, the path of the file or of its folder, or "-" for standard input.
/// Throws DataError for a configuration that cannot be read, UsageError for flags.
void print_config_cost(const CommandLine& line);

/// `cost --list`: prints the released models, with their caches in bf16.
void print_released_models();

/// Flags of `cost` that go with --config.
const std::vector<Flag>& config_cost_flags();

}  // namespace headcount
