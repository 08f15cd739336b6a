#include "models/cost/model_file.h"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>
#include <system_error>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/cost/model_data.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Bytes of a file of weights; 0 if it is not there, or a pointer of git-lfs in its place.
double bytes_of_weights(const fs::path& file) {
  constexpr std::uintmax_t kMostOfPointer = 1 << 10;
  if (!is_there(file)) return 0;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) throw DataError("cannot read {}: {}", file.string(), error.message());
  const bool points =
      size <= kMostOfPointer && read_bytes(file).starts_with("version https://git-lfs");
  return points ? 0 : static_cast<double>(size);
}

// Names of model.safetensors, else of its parts.
std::set<std::string> files_of_weights(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::path& file : entries_of(folder)) {
    const std::string name = file.filename();
    if (name == "model.safetensors") return {name};
    if (name.starts_with("model") && name.ends_with(".safetensors")) names.insert(name);
  }
  for (const std::string& name : names) {
    const std::size_t of = name.rfind("-of-");  // model-00001-of-00002.safetensors
    if (of == name.npos) continue;
    const std::string end = name.substr(of);
    double parts = 0;
    parse_number(end.substr(4, end.find('.') - 4), parts);
    const auto there =
        std::ranges::count_if(names, [&](const auto& one) { return one.ends_with(end); });
    if (there != static_cast<std::ptrdiff_t>(parts))
      throw DataError("parts of the weights are missing beside {}", (folder / name).string());
  }
  return names;
}

}  // namespace

const std::vector<ModelFile>& released_models() {
  static const std::vector<ModelFile> all = [] {
    std::vector<ModelFile> models;
    for (const Json& model : Json::parse(kReleasedModels))
      models.push_back({model.at("name"), model.at("source"), model.at("config"),
                        model.value("settings", Json())});
    return models;
  }();
  return all;
}

const ModelFile& released_model(const std::string& name) {
  const std::vector<ModelFile>& all = released_models();
  const auto found = std::ranges::find(all, name, &ModelFile::name);
  if (found != all.end()) return *found;
  std::string word = fs::path(name).filename();  // of "meta-llama/Llama-3.1-8B"
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::string> names;
  for (const ModelFile& model : all) names.push_back(model.name);
  throw DataError("'{}' is no file, no folder and no released model; `list` names those{}", name,
                  suggestion(word, names));
}

ModelFile read_model_file(const std::string& path) {
  constexpr std::uintmax_t kMostBytes = 16 << 20;  // real ones have a few thousand
  const bool is_input = path == "-";
  if (path.ends_with(".gguf"))
    throw DataError("{} is of another format; name the config.json of the model it was made from",
                    path);
  if (!is_input && !path.ends_with(".json") && !fs::exists(path)) return released_model(path);
  const fs::path file = fs::is_directory(path) ? fs::path(path) / "config.json" : fs::path(path);
  ModelFile model = {is_input ? "standard input" : file.string()};
  std::string text;
  std::error_code unknown;  // of a pipe
  if (is_input) {
    text.resize(kMostBytes + 1);
    std::cin.read(text.data(), std::ssize(text));
    text.resize(static_cast<std::size_t>(std::cin.gcount()));
  } else {
    model.folder = file.has_parent_path() ? file.parent_path() : ".";
  }
  const std::uintmax_t bytes = is_input ? text.size() : fs::file_size(file, unknown);
  if (!unknown && bytes > kMostBytes)
    throw DataError("{} has more than 16 MiB and is no config.json", model.name);
  model.config = read_json(
      is_input ? text : read_file(file), model.name, [](const Json& json) { return json; },
      NonFinite::allowed);
  return model;
}

WeightIndex read_weight_index(const fs::path& path) {
  return read_json(read_file(path), path.string(), [](const Json& all) {
    WeightIndex index;
    const std::map<std::string, std::string> none;
    for (const auto& [tensor, file] : all.value("weight_map", none)) {
      if (file.empty() || file.starts_with('.') || file.find_first_of("/\\") != file.npos)
        throw DataError("'weight_map' puts {} into {}, which is no file in this folder",
                        headcount::quoted(tensor), headcount::quoted(file));
      index.files.insert(file);
    }
    index.bytes = all.value(Json::json_pointer("/metadata/total_size"), 0.0);
    return index;
  });
}

std::optional<double> weight_bytes(const fs::path& folder) {
  const fs::path path = folder / kIndexFile;
  const bool has_index = is_there(path);
  const WeightIndex index =
      has_index ? read_weight_index(path) : WeightIndex{files_of_weights(folder)};
  if (has_index && index.files.empty() && index.bytes == 0)
    throw DataError("{} names no files", path.string());
  const auto or_none = [](double all) { return all > 0 ? std::optional(all) : std::nullopt; };
  double bytes = 0;
  for (const std::string& name : index.files) {
    const double one = bytes_of_weights(folder / name);
    if (one == 0) return or_none(index.bytes);
    bytes += one;
  }
  return or_none(bytes > 0 ? bytes : index.bytes);
}

}  // namespace headcount
