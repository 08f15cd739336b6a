#pragma once

#include "autograd/parameters.h"
#include "models/checkpoint/safetensors.h"

namespace headcount {

/// Whether weights that are read may have numbers that are NaN or infinite.
enum class NonFinite { refused, allowed };

/// Allocates `parameters` and copies the weights of `file` into them. Skips tables of RoPE
/// frequencies (inv_freq), which follow from the configuration, and an output head equal to the
/// embedding that it is tied to. Throws DataError for a weight that is missing, left over, of
/// another shape, or of integers; nothing is allocated then. Throws DataError for a weight with a
/// number that is NaN or infinite, too, unless such numbers are allowed.
void read_weights(const Safetensors& file, ParameterStore& parameters,
                  NonFinite allowed = NonFinite::refused);

/// Metadata of model.safetensors: transformers asks for the framework that wrote the file.
inline const std::map<std::string, std::string> kWeightsMetadata = {{"format", "pt"}};
/// All parameters as tensors of model.safetensors; the store must outlive them. Throws
/// NonFiniteError if a number is NaN or infinite: no checkpoint has such weights.
std::vector<TensorSource> weight_tensors(const ParameterStore& parameters);

}  // namespace headcount
