#include "models/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/checkpoint/durable.h"
#include "models/checkpoint/hugging_face.h"
#include "models/checkpoint/safetensors_file.h"
#include "models/checkpoint/weight_files.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

// Writes the checksums as `sha256sum` does, in the order of the names.
void write_sums(const fs::path& folder) {
  std::string sums;
  for (const fs::path& path : entries_of(folder))
    sums += sum_line(sha256_of_file(path), path.filename().string());
  write_file_durably(folder / kSumsFile, sums);
}

// Checksums by file name, from SHA256SUMS; nothing if it is not there.
std::optional<std::map<std::string, std::string>> read_sums(const fs::path& folder) {
  const fs::path path = folder / kSumsFile;
  if (!is_there(path)) return std::nullopt;
  constexpr std::size_t kDigits = 64, kName = 66;  // two spaces between
  std::map<std::string, std::string> sums;
  const std::string text = read_file(path);
  for (const std::string_view line : split_text(text, '\n')) {
    if (line.empty()) continue;
    const std::string name(line.substr(std::min(kName, line.size())));
    if (name.empty() || name.find('/') != std::string::npos)
      throw DataError(path.string(), " is damaged: ", headcount::quoted(line));
    sums.emplace(name, line.substr(0, kDigits));
  }
  return sums;
}

// Checks every file that SHA256SUMS names.
void check_sums(const fs::path& folder) {
  const auto sums = read_sums(folder);
  if (!sums) return;
  for (const auto& [name, sum] : *sums) {
    if (sha256_of_file(folder / name) == sum) continue;
    throw DataError((folder / name).string(), " is damaged: its checksum is not the one in ",
                    kSumsFile, "; take another checkpoint, or make it anew");
  }
}

}  // namespace

void save_checkpoint(const fs::path& folder, const LanguageModel& model,
                     const Vocabulary& vocabulary,
                     const std::function<void(const fs::path& staging)>& write_more) {
  publish_folder(folder, [&](const fs::path& staging) {
    for (const auto& [name, text] : checkpoint_texts(model, vocabulary))
      write_file_durably(staging / name, text);
    write_safetensors(staging / kWeightsFile, weight_tensors(model.parameters()), kWeightsMetadata);
    if (write_more) write_more(staging);
    write_sums(staging);
  });
}

void require_sums(const fs::path& folder, std::span<const std::string> files) {
  const auto sums = read_sums(folder);
  for (const std::string& name : files) {
    if (sums && !sums->contains(name))
      throw DataError((folder / kSumsFile).string(), " is damaged: it has no line for ", name);
  }
}

void require_checkpoint_alone(const fs::path& folder) {
  if (!is_there(folder)) return;
  const auto sums = read_sums(folder);
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    if (name != kSumsFile && !(sums && sums->contains(name)))
      throw DataError(path.string(), " is no file of a model; move it away");
  }
}

namespace {

constexpr std::string_view kPrefix = "step-";

}  // namespace

fs::path checkpoint_of(const fs::path& run, Index step) {
  return run / kCheckpoints / (std::string(kPrefix) + std::to_string(step));
}

std::optional<Index> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Index step = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc{} && rest == end ? std::optional(step) : std::nullopt;
}

std::vector<fs::path> checkpoints_of(const fs::path& run) {
  const fs::path folder = run / kCheckpoints;
  std::error_code error;
  if (fs::symlink_status(folder, error).type() == fs::file_type::not_found) return {};
  std::vector<fs::path> checkpoints = entries_of(folder);
  std::erase_if(checkpoints, [](const fs::path& path) { return !step_of(path); });
  std::ranges::sort(checkpoints, std::greater(), step_of);
  return checkpoints;
}

std::optional<fs::path> find_checkpoint(const fs::path& path) {
  if (has_weights(path)) return path;
  const std::vector<fs::path> checkpoints = checkpoints_of(path);
  return checkpoints.empty() ? std::nullopt : std::optional(checkpoints.front());
}

NamedConfig load_config(const fs::path& folder) {
  const fs::path path = folder / kConfigFile;
  const std::string text = read_file(path);
  try {
    return read_hugging_face_config(parse_json(text));
  } catch (const DataError& error) {
    throw DataError(path.string(), ": ", error.what());
  }
}

Checkpoint load_checkpoint(const fs::path& folder, NonFinite allowed) {
  std::vector<std::string> needed = weight_files(folder);
  needed.insert(needed.end(), {kConfigFile, kTokenizerFile});
  if (is_there(folder / kTokenizerConfigFile)) needed.push_back(kTokenizerConfigFile);
  require_sums(folder, needed);
  check_sums(folder);
  const fs::path config = folder / kConfigFile, tokenizer = folder / kTokenizerFile;
  const std::string config_text = read_file(config);
  Checkpoint checkpoint =
      read_checkpoint_texts(config_text, config.string(), read_file(tokenizer), tokenizer.string());
  read_weights(open_weights(folder), checkpoint.model->parameters(), allowed);
  return checkpoint;
}

}  // namespace headcount
