#pragma once

#include <string>
#include <vector>

/// The subcommands: each takes the arguments after its name, writes results to standard output and
/// progress to standard error, and returns the exit code or throws.
namespace headcount {

int train_command(const std::vector<std::string>& arguments);
int compare_command(const std::vector<std::string>& arguments);
int sample_command(const std::vector<std::string>& arguments);
int eval_command(const std::vector<std::string>& arguments);
int attend_command(const std::vector<std::string>& arguments);
int cost_command(const std::vector<std::string>& arguments);

}  // namespace headcount
