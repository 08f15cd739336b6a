#pragma once

#include <string>
#include <vector>

#include "models/cost/configuration.h"

namespace headcount {

/// Kinds of layers, in the names of transformers: "full_attention", "sliding_attention",
/// "linear_attention" (a state, of Mamba layers, too), "hybrid" (a state beside attention),
/// "indexed_attention", "nothing", ...
struct LayerKinds {
  std::vector<std::string> model;
  std::vector<std::string> draft;  ///< of the draft head (multi-token prediction)
};

/// What each layer of a configuration is: as listed in it, or as its type derives them. Throws
/// DataError that names the key of a list that is none, or of another length than the layers.
LayerKinds layer_kinds(const Configuration& c);

}  // namespace headcount
