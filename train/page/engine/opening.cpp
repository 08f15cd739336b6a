#include "train/page/engine/opening.h"

#include <map>

#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/checkpoint/contents.h"

namespace headcount::page {

namespace {

constexpr std::string_view kWeightsEnd = ".safetensors";
constexpr std::string_view kMoments = "optimizer.safetensors";

using Folder = std::map<std::string, std::string_view, std::less<>>;  // contents by name

// The files by folder; the name of the topmost folder is "".
std::map<std::string, Folder> folders_of(std::span<const File> files) {
  std::map<std::string, Folder> folders;
  for (const File& file : files) {
    const std::size_t slash = file.name.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : file.name.substr(0, slash);
    folders[folder][file.name.substr(slash == std::string::npos ? 0 : slash + 1)] = file.bytes;
  }
  return folders;
}

bool is_weights(std::string_view name) { return name.ends_with(kWeightsEnd) && name != kMoments; }

std::string_view content(const Folder& folder, std::string_view name) {
  const auto found = folder.find(name);
  if (found == folder.end())
    throw DataError("there is no " + std::string(name) + " beside the weights; add it");
  return found->second;
}

std::optional<Index> trained_steps(const Folder& folder, const std::string& path) {
  const auto state = folder.find("trainer_state.json");
  if (state == folder.end()) return step_in(path);
  return whole_number(parse_json(state->second), "step");
}

}  // namespace

Opened open_checkpoint(std::span<const File> files) {
  const auto folders = folders_of(files);
  const std::pair<const std::string, Folder>* newest = nullptr;
  for (const auto& folder : folders) {
    bool has_weights = false;
    for (const auto& [name, bytes] : folder.second) has_weights = has_weights || is_weights(name);
    if (has_weights && (newest == nullptr || step_in(folder.first) > step_in(newest->first)))
      newest = &folder;
  }
  if (newest == nullptr) {
    throw DataError(
        "no file here is named model.safetensors; drop the files of a checkpoint, or a "
        "run's folder");
  }
  const auto& [path, folder] = *newest;
  Opened opened;
  opened.checkpoint =
      read_checkpoint_texts(std::string(content(folder, kConfigFile)), kConfigFile,
                            std::string(content(folder, kTokenizerFile)), kTokenizerFile);
  Safetensors weights;
  for (const auto& [name, bytes] : folder) {
    if (is_weights(name)) weights.add(Safetensors::parse(std::as_bytes(std::span(bytes)), name));
  }
  read_weights(weights, opened.checkpoint.model->parameters());
  opened.step = trained_steps(folder, path);
  return opened;
}

}  // namespace headcount::page
