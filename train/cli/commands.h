#pragma once

#include <string>
#include <vector>

#include "train/ranks.h"

/// The subcommands: each takes the arguments after its name, writes results to standard output and
/// progress to standard error, and returns the exit code or throws. The first three share their
/// work with the other ranks, of which rank 0 alone writes files and results.
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
