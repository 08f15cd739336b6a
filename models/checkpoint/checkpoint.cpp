#include "models/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/sha256.h"
#include "autograd/base/text.h"
#include "models/checkpoint/durable.h"
#include "models/checkpoint/hugging_face.h"
#include "models/checkpoint/safetensors.h"
#include "models/checkpoint/tokenizer.h"
#include "models/checkpoint/weights.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kSums = "SHA256SUMS";

// Reads the JSON in a file with `read`; errors name the file.
template <class Read>
auto from_json(const fs::path& path, const Read& read) {
  const std::string text = read_file(path);
  try {
    return read(parse_json(text));
  } catch (const DataError& error) {
    throw DataError(path.string() + ": " + error.what());
  }
}

// Everything in a folder. Throws DataError: a folder that cannot be read must not look empty.
std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      paths.push_back(entry.path());
  } catch (const fs::filesystem_error& error) {
    throw DataError(folder.string() + " cannot be read: " + error.code().message());
  }
  return paths;
}

// Writes the checksums as `sha256sum` does, in the order of the names.
void write_sums(const fs::path& folder) {
  std::vector<fs::path> paths = paths_in(folder);
  std::ranges::sort(paths);
  std::string sums;
  for (const fs::path& path : paths)
    sums += sha256_of_file(path) + "  " + path.filename().string() + "\n";
  write_file_durably(folder / kSums, sums);
}

// Checksums by file name, from SHA256SUMS; nothing if it is not there.
std::optional<std::map<std::string, std::string>> read_sums(const fs::path& folder) {
  const fs::path path = folder / kSums;
  if (!is_there(path)) return std::nullopt;
  constexpr std::size_t kDigits = 64, kName = 66;  // two spaces between
  std::map<std::string, std::string> sums;
  const std::string text = read_file(path);
  for (const std::string_view line : split_text(text, '\n')) {
    if (line.empty()) continue;
    const std::string name(line.substr(std::min(kName, line.size())));
    if (name.empty() || name.find('/') != std::string::npos)
      throw DataError(path.string() + " is damaged: " + headcount::quoted(line));
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
    throw DataError((folder / name).string() + " is damaged: its checksum is not the one in " +
                    kSums);
  }
}

}  // namespace

void save_checkpoint(const fs::path& folder, const LanguageModel& model,
                     const Vocabulary& vocabulary,
                     const std::function<void(const fs::path& staging)>& write_more) {
  const ParameterStore& parameters = model.parameters();
  std::vector<TensorSource> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensors.push_back({parameters.name({i}), parameters.shape({i}).extents(), kRealDtype,
                       parameters.value({i}).data()});
  }
  publish_folder(folder, [&](const fs::path& staging) {
    write_file_durably(staging / kConfig,
                       hugging_face_config(model.plan(), vocabulary.size()).dump(2) + "\n");
    write_file_durably(staging / kTokenizer, hugging_face_tokenizer(vocabulary).dump(2) + "\n");
    write_file_durably(staging / kTokenizerConfig,
                       hugging_face_tokenizer_config(model.plan()->context).dump(2) + "\n");
    // transformers asks for the framework that wrote the file.
    write_safetensors(staging / "model.safetensors", tensors, {{"format", "pt"}});
    if (write_more) write_more(staging);
    write_sums(staging);
  });
}

void require_sums(const fs::path& folder, std::span<const std::string> files) {
  const auto sums = read_sums(folder);
  for (const std::string& name : files) {
    if (sums && !sums->contains(name))
      throw DataError((folder / kSums).string() + " is damaged: it has no line for " + name);
  }
}

void require_checkpoint_alone(const fs::path& folder) {
  if (!is_there(folder)) return;
  const auto sums = read_sums(folder);
  for (const fs::path& path : paths_in(folder)) {
    const std::string name = path.filename().string();
    if (name != kSums && !(sums && sums->contains(name)))
      throw DataError(path.string() + " is no file of a model; move it away");
  }
}

std::optional<Index> step_of(const fs::path& folder) {
  constexpr std::string_view kPrefix = "step-";
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  Index step = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc{} && rest == end ? std::optional(step) : std::nullopt;
}

std::optional<fs::path> find_checkpoint(const fs::path& path) {
  if (has_weights(path)) return path;
  const fs::path folder = path / "checkpoints";
  std::error_code error;
  if (fs::symlink_status(folder, error).type() == fs::file_type::not_found) return std::nullopt;
  std::optional<fs::path> newest;
  for (const fs::path& each : paths_in(folder)) {
    const std::optional<Index> step = step_of(each);
    if (step && (!newest || *step > *step_of(*newest))) newest = each;
  }
  return newest;
}

ModelPlan load_model_plan(const fs::path& folder) {
  return from_json(folder / kConfig, read_hugging_face_config).model;
}

Checkpoint load_checkpoint(const fs::path& folder) {
  std::vector<std::string> needed = weight_files(folder);
  needed.insert(needed.end(), {kConfig, kTokenizer});
  if (is_there(folder / kTokenizerConfig)) needed.push_back(kTokenizerConfig);
  require_sums(folder, needed);
  check_sums(folder);
  const fs::path config_path = folder / kConfig;
  const NamedConfig config = from_json(config_path, read_hugging_face_config);
  Checkpoint checkpoint;
  checkpoint.vocabulary = from_json(folder / kTokenizer, read_hugging_face_tokenizer);
  if (checkpoint.vocabulary.size() != config.vocabulary) {
    throw DataError(config_path.string() + ": 'vocab_size' is " +
                    std::to_string(config.vocabulary) + ", but tokenizer.json has " +
                    std::to_string(checkpoint.vocabulary.size()) + " tokens");
  }
  try {
    checkpoint.model = std::make_unique<LanguageModel>(config.model, config.vocabulary);
  } catch (const ShapeError& error) {
    throw DataError(config_path.string() + ": " + error.what());
  }
  read_weights(open_weights(folder), checkpoint.model->parameters());
  return checkpoint;
}

}  // namespace headcount
