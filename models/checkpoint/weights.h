#pragma once

#include "autograd/parameters.h"
#include "models/checkpoint/safetensors.h"

namespace headcount {

/// Allocates `parameters` and copies the weights of `file` into them. Skips tables of RoPE
/// frequencies (inv_freq), which follow from the configuration, and an output head equal to the
/// embedding that it is tied to. Throws DataError for a weight that is missing, left over, of
/// another shape, or of integers; nothing is allocated then.
void read_weights(const Safetensors& file, ParameterStore& parameters);

/// Metadata of model.safetensors: transformers asks for the framework that wrote the file.
inline const std::map<std::string, std::string> kWeightsMetadata = {{"format", "pt"}};
/// All parameters as tensors of model.safetensors; the store must outlive them.
std::vector<TensorSource> weight_tensors(const ParameterStore& parameters);

}  // namespace headcount
