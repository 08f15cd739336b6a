#include "models/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/text.h"
#include "models/durable.h"
#include "models/hugging_face.h"
#include "models/safetensors.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

constexpr Dtype kRealDtype = sizeof(Real) == sizeof(double) ? Dtype::f64 : Dtype::f32;
constexpr const char* kSums = "SHA256SUMS";

std::vector<std::int64_t> extents(const Shape& shape) {
  std::vector<std::int64_t> result;
  for (int i = 0; i < shape.rank(); ++i) result.push_back(shape[i]);
  return result;
}

std::string text_of(const std::vector<std::int64_t>& shape) { return nlohmann::json(shape).dump(); }

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
  for (const std::string& name : names)
    sums += sha256_hex(read_file(folder / name)) + "  " + name + "\n";
  write_file_durably(folder / kSums, sums);
}

}  // namespace

void save_checkpoint(const fs::path& folder, const LanguageModel& model,
                     const Vocabulary& vocabulary,
                     const std::function<void(const fs::path& staging)>& write_more) {
  const ParameterStore& parameters = model.parameters();
  std::vector<TensorSource> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensors.push_back({parameters.name({i}), extents(parameters.shape({i})), kRealDtype,
                       parameters.value({i}).data()});
  }
  publish_folder(folder, [&](const fs::path& staging) {
    write_file_durably(staging / "config.json",
                       hugging_face_config(model.config(), vocabulary.size()).dump(2) + "\n");
    write_file_durably(staging / "tokenizer.json",
                       hugging_face_tokenizer(vocabulary).dump(2) + "\n");
    // transformers asks for the framework that wrote the file.
    write_safetensors(staging / "model.safetensors", tensors, {{"format", "pt"}});
    if (write_more) write_more(staging);
    write_sums(staging);
  });
}

void check_sums(const fs::path& folder) {
  if (!fs::exists(folder / kSums)) return;
  std::istringstream sums(read_file(folder / kSums));
  for (std::string line; std::getline(sums, line);) {
    if (line.size() < 67) throw DataError((folder / kSums).string() + " is damaged: " + line);
    const fs::path file = folder / line.substr(66);
    if (sha256_hex(read_file(file)) != line.substr(0, 64)) {
      throw DataError(file.string() + " is damaged: its checksum is not the one in " + kSums);
    }
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
  std::error_code error;
  if (fs::exists(path / "model.safetensors", error)) return path;
  const fs::path folder = path / "checkpoints";
  if (fs::symlink_status(folder, error).type() == fs::file_type::not_found) return std::nullopt;
  std::optional<fs::path> newest;
  error.clear();
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::optional<Index> step = step_of(it->path());
    if (step && (!newest || *step > *step_of(*newest))) newest = it->path();
  }
  // What cannot be read may well be there.
  if (error) throw DataError(folder.string() + " cannot be read: " + error.message());
  return newest;
}

Checkpoint load_checkpoint(const fs::path& folder, std::optional<Index> window) {
  check_sums(folder);
  const fs::path config_path = folder / "config.json";
  NamedConfig config = from_json(config_path, read_hugging_face_config);
  Checkpoint checkpoint;
  checkpoint.vocabulary = from_json(folder / "tokenizer.json", read_hugging_face_tokenizer);
  if (checkpoint.vocabulary.size() != config.vocabulary) {
    throw DataError(config_path.string() + ": 'vocab_size' is " +
                    std::to_string(config.vocabulary) + ", but tokenizer.json has " +
                    std::to_string(checkpoint.vocabulary.size()) + " tokens");
  }
  if (window) config.model.attention.window = *window;
  try {
    checkpoint.model = std::make_unique<LanguageModel>(config.model, config.vocabulary);
  } catch (const ShapeError& error) {
    throw DataError(config_path.string() + ": " + error.what());
  }
  read_weights(Safetensors::open(folder / "model.safetensors"), checkpoint.model->parameters());
  return checkpoint;
}

void read_weights(const Safetensors& file, ParameterStore& parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const TensorView& tensor = file.at(parameters.name({i}));
    const auto expected = extents(parameters.shape({i}));
    if (tensor.shape != expected) {
      throw DataError(tensor.source + ": " + tensor.name + " has shape " + text_of(tensor.shape) +
                      ", the configuration wants " + text_of(expected));
    }
  }
  for (const TensorView& tensor : file.tensors()) {
    try {
      parameters.find(tensor.name);
    } catch (const ShapeError&) {
      throw DataError(tensor.source + ": " + tensor.name + " is no weight of the configured model");
    }
  }
  parameters.allocate();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    read_into(file.at(parameters.name({i})), parameters.value({i}));
}

}  // namespace headcount
