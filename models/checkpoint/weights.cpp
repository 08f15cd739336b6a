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

// Tensor name to file name, as the index of `folder` has it.
std::map<std::string, std::string> read_index(const fs::path& folder) {
  const fs::path path = folder / kIndex;
  const std::string text = read_file(path);
  try {
    std::map<std::string, std::string> files = parse_json(text).at("weight_map");
    for (const auto& [tensor, name] : files) {
      if (name.empty() || name.starts_with('.') || name.find_first_of("/\\") != std::string::npos) {
        throw DataError("'weight_map' puts " + headcount::quoted(tensor) + " into " +
                        headcount::quoted(name) + ", which is no file in this folder");
      }
    }
    return files;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(path.string() + ": " + error.what());
  } catch (const DataError& error) {
    throw DataError(path.string() + ": " + error.what());
  }
}

std::set<std::string> names_of_files(const std::map<std::string, std::string>& index) {
  std::set<std::string> names;
  for (const auto& [tensor, name] : index) names.insert(name);
  return names;
}

bool is_whole(const fs::path& folder) { return is_there(folder / kWhole); }

std::string text_of(const std::vector<std::int64_t>& shape) { return nlohmann::json(shape).dump(); }

void check_shapes(const Safetensors& file, const ParameterStore& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorView& tensor = file.at(parameters.name({i}));
    const auto expected = parameters.shape({i}).extents();
    if (tensor.shape != expected) {
      throw DataError(tensor.source + ": " + tensor.name + " has shape " + text_of(tensor.shape) +
                      ", the configuration wants " + text_of(expected));
    }
  }
}

// Throws for a tensor that the model has no place for, unless nothing is lost without it.
void check_left_over(const Safetensors& file, const ParameterStore& parameters) {
  std::set<std::string_view> known;
  for (std::size_t i = 0; i < parameters.size(); ++i) known.insert(parameters.name({i}));
  for (const TensorView& tensor : file.tensors()) {
    if (known.contains(tensor.name) || tensor.name.ends_with(".rotary_emb.inv_freq")) continue;
    if (tensor.name == kHead) {
      const TensorView& embedding = file.at(kEmbedding);
      if (tensor.shape == embedding.shape && tensor.to_doubles() == embedding.to_doubles())
        continue;
      throw DataError(tensor.source + ": " + kHead + " is no weight of the configured model: it " +
                      "has 'tie_word_embeddings', and this is not equal to " + kEmbedding);
    }
    throw DataError(tensor.source + ": " + tensor.name + " is no weight of the configured model");
  }
}

}  // namespace

bool has_weights(const fs::path& folder) { return is_whole(folder) || is_there(folder / kIndex); }

std::vector<std::string> weight_files(const fs::path& folder) {
  // As transformers does: the index counts only without the whole file.
  if (is_whole(folder) || !is_there(folder / kIndex)) return {kWhole};
  std::vector<std::string> names = {kIndex};
  for (const std::string& name : names_of_files(read_index(folder))) names.push_back(name);
  return names;
}

Safetensors open_weights(const fs::path& folder) {
  if (is_whole(folder) || !is_there(folder / kIndex)) return Safetensors::open(folder / kWhole);
  const std::map<std::string, std::string> index = read_index(folder);
  std::vector<Safetensors> files;
  for (const std::string& name : names_of_files(index)) {
    files.push_back(Safetensors::open(folder / name));
    for (const TensorView& tensor : files.back().tensors()) {
      const auto listed = index.find(tensor.name);
      if (listed != index.end() && listed->second == name) continue;
      throw DataError(tensor.source + " has " + headcount::quoted(tensor.name) + ", which " +
                      kIndex +
                      (listed == index.end() ? " does not list"
                                             : " puts into " + headcount::quoted(listed->second)));
    }
  }
  const Safetensors all = Safetensors::join(files, (folder / kIndex).string());
  for (const auto& [tensor, name] : index) {
    if (all.contains(tensor)) continue;
    throw DataError((folder / kIndex).string() + " puts " + headcount::quoted(tensor) + " into " +
                    headcount::quoted(name) + ", which does not have it");
  }
  return all;
}

void read_weights(const Safetensors& file, ParameterStore& parameters) {
  check_shapes(file, parameters);
  check_left_over(file, parameters);
  parameters.allocate();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    read_into(file.at(parameters.name({i})), parameters.value({i}));
}

}  // namespace headcount
