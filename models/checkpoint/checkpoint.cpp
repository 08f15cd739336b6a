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

constexpr Dtype kRealDtype = sizeof(Real) == sizeof(double) ? Dtype::f64 : Dtype::f32;
constexpr const char* kConfig = "config.json";
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kSums = "SHA256SUMS";

// What `read` makes of the JSON in a file; errors name the file.
template <class Read>
auto from_json(const fs::path& path, const Read& read) {
  const std::string text = read_file(path);
  try {
    return read(parse_json(text));
  } catch (const DataError& error) {
    throw DataError(path.string() + ": " + error.what());
  }
}

// As `sha256sum` writes them, in the order of the names.
void write_sums(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  std::string sums;
  for (const std::string& name : names) sums += sha256_of_file(folder / name) + "  " + name + "\n";
  write_file_durably(folder / kSums, sums);
}

using Sums = std::map<std::string, std::string>;  // file name to checksum

// What SHA256SUMS says; nothing if it is not there.
std::optional<Sums> read_sums(const fs::path& folder) {
  const fs::path path = folder / kSums;
  if (!is_there(path)) return std::nullopt;
  constexpr std::size_t kDigits = 64, kName = 66;  // two spaces between
  Sums sums;
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

void check_sums(const fs::path& folder) {
  for (const auto& [name, sum] : read_sums(folder).value_or(Sums())) {
    if (sha256_of_file(folder / name) == sum) continue;
    throw DataError((folder / name).string() + " is damaged: its checksum is not the one in " +
                    kSums);
  }
}

void require_sums(const fs::path& folder, std::span<const std::string> files) {
  const std::optional<Sums> sums = read_sums(folder);
  if (!sums) return;
  for (const std::string& name : files) {
    if (!sums->contains(name)) {
      throw DataError((folder / kSums).string() + " is damaged: it has no line for " + name);
    }
  }
}

void require_checkpoint_alone(const fs::path& folder) {
  if (!is_there(folder)) return;
  const Sums sums = read_sums(folder).value_or(Sums());
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name != kSums && !sums.contains(name))
      throw DataError(it->path().string() + " is no file of a model; move it away");
  }
  if (error) throw DataError(folder.string() + " cannot be read: " + error.message());
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
  std::error_code error;
  const fs::path folder = path / "checkpoints";
  if (fs::symlink_status(folder, error).type() == fs::file_type::not_found) return std::nullopt;
  std::optional<fs::path> newest;
  error.clear();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::optional<Index> step = step_of(it->path());
    if (step && (!newest || *step > *step_of(*newest))) newest = it->path();
  }
  // Without this, a folder that cannot be read would look like one without checkpoints.
  if (error) throw DataError(folder.string() + " cannot be read: " + error.message());
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
