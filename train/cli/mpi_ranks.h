#pragma once

#include <memory>
#include <optional>
#include <string>

#include "train/ranks.h"

namespace headcount {

/// Number of processes that a launcher of MPI started together, this one among them: "8", or
/// "several" if the launcher does not say how many. None if no launcher started this process.
std::optional<std::string> launched_processes();

/// Number of this process, from 0, among those that mpirun or srun started together; 0 if it was
/// started alone.
int launched_rank();

/// The ranks among which this process is one. Throws Error if several processes were started
/// together and this program was built without MPI.
std::unique_ptr<Ranks> started_ranks();

/// Name and version of the MPI library in use, "Open MPI v4.1.4", or "no MPI".
std::string mpi_text();

}  // namespace headcount
