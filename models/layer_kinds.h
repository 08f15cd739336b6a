#pragma once

#include <string>
#include <vector>

#include "models/configuration.h"

namespace headcount {

/// What each layer of a configuration is: "full_attention", "sliding_attention", "mamba", ... as
/// transformers names them. As listed in the configuration, or as its type derives them. Throws
/// DataError that names the key of a list that is none, or of another length than the layers.
std::vector<std::string> layer_kinds(const Configuration& c);

}  // namespace headcount
