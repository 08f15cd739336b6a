#include "train/cli/mpi_ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "autograd/base/error.h"

namespace headcount {
namespace {

using Environment = std::map<std::string, std::string>;

// Expects a number of processes where a launcher has set these variables.
void expect_launched(const Environment& variables, const std::optional<std::string>& processes) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  EXPECT_EQ(launched_processes(), processes) << testing::PrintToString(variables);
  if (mpi_text() == "no MPI") {
    if (processes.value_or("1") == "1") {
      EXPECT_EQ(started_ranks()->size(), 1);
    } else {
      EXPECT_THROW(started_ranks(), Error) << testing::PrintToString(variables);
    }
  }
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
}

TEST(LaunchedProcesses, AreKnownFromEveryLauncher) {
  // A launcher may have started this test.
  Environment launcher;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "PMI_RANK",
                           "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    if (const char* const value = std::getenv(name)) launcher[name] = value;
    unsetenv(name);
  }
  expect_launched({}, std::nullopt);
  expect_launched({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "0"}}, "4");
  expect_launched({{"PMI_SIZE", "1"}, {"PMI_RANK", "0"}}, "1");
  expect_launched({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "32"}}, "32");
  expect_launched({{"PMIX_RANK", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, "1");
  expect_launched({{"PMIX_RANK", "3"}}, "several");
  expect_launched({{"SLURM_STEP_NUM_TASKS", "8"}}, std::nullopt);  // srun --mpi=none
  EXPECT_EQ(launched_rank(), 0);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    setenv(name, "3", 1);
    EXPECT_EQ(launched_rank(), 3) << name;
    unsetenv(name);
  }
  for (const auto& [name, value] : launcher) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace
}  // namespace headcount
