#include "models/checkpoint/checkpoint.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/sha256.h"
#include "autograd/base/text.h"
#include "models/checkpoint/durable.h"
#include "models/cost/model_file.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

// Names of the files that hold the folder's weights, the index included. Throws DataError.
std::vector<std::string> weight_files(const fs::path& folder) {
  // The index is read only if there is no model.safetensors, as in transformers.
  if (is_there(folder / kWeightsFile) || !is_there(folder / kIndexFile)) return {kWeightsFile};
  const std::set<std::string> files = read_weight_index(folder / kIndexFile).files;
  if (files.empty()) throw DataError("{} names no files", (folder / kIndexFile).string());
  std::vector<std::string> names = {kIndexFile};
  names.insert(names.end(), files.begin(), files.end());
  return names;
}

}  // namespace

void save_checkpoint(const fs::path& folder, const LanguageModel& model,
                     const Vocabulary& vocabulary, Documents documents,
                     const std::function<void(const fs::path& staging)>& write_more) {
  publish_folder(folder, [&](const fs::path& staging) {
    for (const auto& [name, bytes] : checkpoint_files(model, vocabulary, documents))
      write_file_durably(staging / name, bytes);
    if (write_more) write_more(staging);
    std::string sums;
    for (const fs::path& path : entries_of(staging))
      sums += sha256_hex(read_bytes(path)) + "  " + path.filename().string() + "\n";
    write_file_durably(staging / kSumsFile, sums);
  });
}

Safetensors open_safetensors(const fs::path& path) { return {read_bytes(path), path.string()}; }

void write_safetensors(const fs::path& path, std::span<const TensorSource> tensors,
                       const std::map<std::string, std::string>& metadata) {
  write_file_durably(path, safetensors_of(tensors, metadata));
}

std::map<std::string, std::string> require_sums(const fs::path& folder,
                                                std::span<const std::string> files) {
  const fs::path path = folder / kSumsFile;
  if (!is_there(path)) return {};
  constexpr std::size_t kDigits = 64, kName = 66;  // two spaces between
  std::map<std::string, std::string> sums;
  const std::string text = read_file(path);
  for (const std::string_view line : split_text(text, '\n')) {
    if (line.empty()) continue;
    const std::string name(line.substr(std::min(kName, line.size())));
    if (name.empty() || name.find('/') != std::string::npos)
      throw DataError("{} is damaged: {}", path.string(), headcount::quoted(line));
    sums.emplace(name, line.substr(0, kDigits));
  }
  for (const std::string& name : files) {
    if (!sums.contains(name))
      throw DataError("{} is damaged: it has no line for {}", path.string(), name);
  }
  return sums;
}

fs::path checkpoint_of(const fs::path& run, Index step) {
  return run / kCheckpoints / ("step-" + std::to_string(step));
}

std::optional<Index> step_of(const fs::path& folder) {
  constexpr std::string_view kPrefix = "step-";
  const std::string name = folder.filename().string();
  Index step = 0;
  const bool is_step =
      name.starts_with(kPrefix) && parse_number(name.substr(kPrefix.size()), step) == std::errc();
  return is_step ? std::optional(step) : std::nullopt;
}

std::vector<fs::path> checkpoints_of(const fs::path& run) {
  const fs::path folder = run / kCheckpoints;
  std::error_code error;
  if (fs::symlink_status(folder, error).type() == fs::file_type::not_found) return {};
  std::vector<fs::path> checkpoints = entries_of(folder);
  const auto step = [](const fs::path& path) { return step_of(path); };
  std::erase_if(checkpoints, std::not_fn(step));
  std::ranges::sort(checkpoints, std::greater(), step);
  return checkpoints;
}

std::optional<fs::path> find_checkpoint(const fs::path& path) {
  if (is_there(path / kWeightsFile) || is_there(path / kIndexFile)) return path;
  const std::vector<fs::path> checkpoints = checkpoints_of(path);
  return checkpoints.empty() ? std::nullopt : std::optional(checkpoints.front());
}

NamedConfig load_config(const fs::path& folder) {
  const fs::path path = folder / kConfigFile;
  return read_json(read_file(path), path.string(), read_hugging_face_config, NonFinite::allowed);
}

Checkpoint load_checkpoint(const fs::path& folder, NonFinite allowed) {
  std::vector<std::string> weights = weight_files(folder), needed = weights;
  needed.insert(needed.end(), {kConfigFile, kTokenizerFile});
  if (is_there(folder / kTokenizerConfigFile)) needed.push_back(kTokenizerConfigFile);
  for (const auto& [name, sum] : require_sums(folder, needed)) {
    if (sha256_hex(read_bytes(folder / name)) == sum) continue;
    throw DataError(
        "{} is damaged: its checksum is not the one in {}; take another checkpoint, or make it "
        "anew",
        (folder / name).string(), kSumsFile);
  }
  std::erase(weights, kIndexFile);
  const auto read = [&](const std::string& name) { return read_file(folder / name); };
  return read_checkpoint(read, weights, (folder / "").string(), allowed);
}

}  // namespace headcount
