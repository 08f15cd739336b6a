#pragma once

#include <memory>
#include <string>

#include "train/ranks.h"

namespace headcount {

/// The ranks that this process is one of. Throws Error where something started several processes
/// and this program was built without MPI.
std::unique_ptr<Ranks> started_ranks();

/// "Open MPI v4.1.4": what `started_ranks` works with; "no MPI".
std::string mpi_text();

}  // namespace headcount
