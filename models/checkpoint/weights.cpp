#include "models/checkpoint/weights.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

constexpr const char* kWhole = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

void check_shapes(const Safetensors& file, const ParameterStore& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorView& tensor = file.at(parameters.name({i}));
    const auto expected = parameters.shape({i}).extents();
    if (tensor.shape != expected) {
      throw DataError(tensor.source + ": " + tensor.name + " has shape " +
                      nlohmann::json(tensor.shape).dump() + ", the configuration wants " +
                      nlohmann::json(expected).dump());
    }
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
      throw DataError(tensor.source + ": " + kHead + " differs from " + kEmbedding +
                      ", but config.json ties both; set 'tie_word_embeddings' to false there");
    }
    throw DataError(tensor.source + ": " + tensor.name +
                    " is no weight of the configured model; use the config.json of these weights");
  }
}

}  // namespace

bool has_weights(const fs::path& folder) {
  return is_there(folder / kWhole) || is_there(folder / kIndex);
}

std::vector<std::string> weight_files(const fs::path& folder) {
  // As in transformers, the index is read only if there is no model.safetensors.
  if (is_there(folder / kWhole) || !is_there(folder / kIndex)) return {kWhole};
  const fs::path path = folder / kIndex;
  std::vector<std::string> names = {kIndex};
  const std::string text = read_file(path);
  try {
    const std::map<std::string, std::string> files = parse_json(text).at("weight_map");
    for (const auto& [tensor, name] : files) {
      if (name.empty() || name.starts_with('.') || name.find_first_of("/\\") != std::string::npos) {
        throw DataError("'weight_map' puts " + headcount::quoted(tensor) + " into " +
                        headcount::quoted(name) + ", which is no file in this folder");
      }
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  } catch (const nlohmann::json::exception& error) {
    throw DataError(path.string() + ": " + error.what());
  } catch (const DataError& error) {
    throw DataError(path.string() + ": " + error.what());
  }
  return names;
}

Safetensors open_weights(const fs::path& folder) {
  Safetensors all;
  for (const std::string& name : weight_files(folder)) {
    if (name != kIndex) all.add(Safetensors::open(folder / name));
  }
  return all;
}

void read_weights(const Safetensors& file, ParameterStore& parameters) {
  check_shapes(file, parameters);
  check_left_over(file, parameters);
  parameters.allocate();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    read_into(file.at(parameters.name({i})), parameters.value({i}));
  parameters.round_values();
}

}  // namespace headcount
