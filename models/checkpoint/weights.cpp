#include "models/checkpoint/weights.h"

#include <nlohmann/json.hpp>
#include <set>

#include "autograd/tape.h"

namespace headcount {

namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

const TensorView& tensor_of(const Safetensors& file, const std::string& name) {
  try {
    return file.at(name);
  } catch (const DataError& error) {
    if (!name.ends_with(".q_norm.weight")) throw;
    throw DataError(error.what(),
                    ". If it is of a version in which `qk-norm` was for fox alone, write "
                    "fox:qk-norm=on for fox and off for qk-norm in each config.json, and remove "
                    "SHA256SUMS");
  }
}

void check_shapes_and_types(const Safetensors& file, const ParameterStore& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorView& tensor = tensor_of(file, parameters.name({i}));
    const auto expected = parameters.shape({i}).extents();
    if (tensor.shape != expected) {
      throw DataError(tensor.source, ": ", tensor.name, " has shape ",
                      nlohmann::json(tensor.shape).dump(), ", the configuration wants ",
                      nlohmann::json(expected).dump());
    }
    require_floating_point(tensor);
  }
}

// Throws DataError for a tensor that is no parameter of the model, unless it carries no information
// of its own (see read_weights).
void check_left_over(const Safetensors& file, const ParameterStore& parameters) {
  std::set<std::string_view> known;
  for (std::size_t i = 0; i < parameters.size(); ++i) known.insert(parameters.name({i}));
  for (const TensorView& tensor : file.tensors()) {
    if (known.contains(tensor.name) || tensor.name.ends_with(".rotary_emb.inv_freq")) continue;
    if (tensor.name == kHead) {
      const TensorView& embedding = file.at(kEmbedding);
      if (tensor.shape == embedding.shape && tensor.to_doubles() == embedding.to_doubles())
        continue;
      throw DataError(tensor.source, ": ", kHead, " differs from ", kEmbedding,
                      ", but config.json ties both; set 'tie_word_embeddings' to false there");
    }
    throw DataError(tensor.source, ": ", tensor.name,
                    " is no weight of the configured model; use the config.json of these weights");
  }
}

}  // namespace

void read_weights(const Safetensors& file, ParameterStore& parameters, NonFinite allowed) {
  check_shapes_and_types(file, parameters);
  check_left_over(file, parameters);
  parameters.allocate();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorView& tensor = file.at(parameters.name({i}));
    read_into(tensor, parameters.value({i}));
    const auto wrong = non_finite(parameters.value({i}));
    if (wrong && allowed == NonFinite::refused)
      throw DataError(tensor.source, ": ", tensor.name, " ", *wrong, "; take another checkpoint");
  }
}

std::vector<TensorSource> weight_tensors(const ParameterStore& parameters) {
  std::vector<TensorSource> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::span<const Real> value = parameters.value({i});
    if (const auto wrong = non_finite(value))
      throw NonFiniteError(parameters.name({i}), " ", *wrong, "; no checkpoint is saved");
    tensors.push_back(
        {parameters.name({i}), parameters.shape({i}).extents(), kRealDtype, value.data()});
  }
  return tensors;
}

}  // namespace headcount
