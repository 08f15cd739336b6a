#pragma once

#include <string>
#include <vector>

#include "train/ranks.h"

/// The subcommands: each takes the arguments after its name, writes results to standard output and
/// progress to standard error, and returns the exit code or throws. `train`, `compare` and `eval`
/// share their work among all ranks; only rank 0 writes files and results.
namespace headcount {

int train_command(const std::vector<std::string>& arguments, Ranks& ranks);
int compare_command(const std::vector<std::string>& arguments, Ranks& ranks);
int eval_command(const std::vector<std::string>& arguments, Ranks& ranks);
int report_command(const std::vector<std::string>& arguments);
int sample_command(const std::vector<std::string>& arguments);
int attend_command(const std::vector<std::string>& arguments);
int convert_command(const std::vector<std::string>& arguments);
int cost_command(const std::vector<std::string>& arguments);

}  // namespace headcount
