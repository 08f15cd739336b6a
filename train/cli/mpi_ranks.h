#pragma once

#include <memory>
#include <string>

#include "train/ranks.h"

namespace headcount {

/// The ranks among which this process is one. Throws Error if several processes were started
/// together and this program was built without MPI.
std::unique_ptr<Ranks> started_ranks();

/// Name and version of the MPI library in use, "Open MPI v4.1.4", or "no MPI".
std::string mpi_text();

}  // namespace headcount
