#include "models/checkpoint/weight_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/checkpoint/contents.h"
#include "models/checkpoint/safetensors_file.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

constexpr const char* kIndex = "model.safetensors.index.json";

}  // namespace

bool has_weights(const fs::path& folder) {
  return is_there(folder / kWeightsFile) || is_there(folder / kIndex);
}

std::vector<std::string> weight_files(const fs::path& folder) {
  // The index is read only if there is no model.safetensors, as in transformers.
  if (is_there(folder / kWeightsFile) || !is_there(folder / kIndex)) return {kWeightsFile};
  const fs::path path = folder / kIndex;
  std::vector<std::string> names = {kIndex};
  const std::string text = read_file(path);
  try {
    const std::map<std::string, std::string> files = parse_json(text).at("weight_map");
    for (const auto& [tensor, name] : files) {
      if (name.empty() || name.starts_with('.') || name.find_first_of("/\\") != std::string::npos) {
        throw DataError("'weight_map' puts ", headcount::quoted(tensor), " into ",
                        headcount::quoted(name), ", which is no file in this folder");
      }
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  } catch (const nlohmann::json::exception& error) {
    throw DataError(path.string(), ": ", error.what());
  } catch (const DataError& error) {
    throw DataError(path.string(), ": ", error.what());
  }
  return names;
}

Safetensors open_weights(const fs::path& folder) {
  Safetensors all;
  for (const std::string& name : weight_files(folder)) {
    if (name != kIndex) all.add(open_safetensors(folder / name));
  }
  return all;
}

}  // namespace headcount
