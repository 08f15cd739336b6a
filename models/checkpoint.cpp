#include "models/checkpoint.h"

#include <utf8.h>

#include <charconv>
#include <fstream>

#include "models/durable.h"
#include "models/safetensors.h"

namespace headcount {

namespace {

constexpr Dtype kRealDtype = sizeof(Real) == sizeof(double) ? Dtype::f64 : Dtype::f32;

std::vector<std::int64_t> extents(const Shape& shape) {
  std::vector<std::int64_t> result;
  for (int i = 0; i < shape.rank(); ++i) result.push_back(shape[i]);
  return result;
}

std::string text_of(const std::vector<std::int64_t>& shape) { return nlohmann::json(shape).dump(); }

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path))
    throw DataError("cannot read " + path.string() + "; is this a checkpoint folder?");
  try {
    return nlohmann::json::parse(file);
  } catch (const nlohmann::json::exception& error) {
    throw DataError(path.string() + " is not valid JSON: " + error.what());
  }
}

}  // namespace

void save_checkpoint(const std::filesystem::path& folder, const LanguageModel& model,
                     std::u32string_view symbols) {
  nlohmann::ordered_json config;
  config["model"] = to_json(model.config());
  config["symbols"] = utf8::utf32to8(std::u32string(symbols));
  const ParameterStore& parameters = model.parameters();
  std::vector<TensorSource> tensors;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    tensors.push_back({parameters.name({i}), extents(parameters.shape({i})), kRealDtype,
                       parameters.value({i}).data()});
  }
  publish_folder(folder, [&](const std::filesystem::path& staging) {
    write_file_durably(staging / "config.json", config.dump(2) + "\n");
    write_safetensors(staging / "model.safetensors", tensors);
  });
}

std::filesystem::path find_checkpoint(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path / "model.safetensors", error)) return path;
  std::filesystem::path newest;
  long long newest_step = -1;
  for (const auto& entry : std::filesystem::directory_iterator(path / "checkpoints", error)) {
    const std::string name = entry.path().filename().string();
    long long step = -1;
    if (name.starts_with("step-"))
      std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (step <= newest_step) continue;
    newest = entry.path();
    newest_step = step;
  }
  if (newest.empty()) {
    throw DataError("'" + path.string() +
                    "' is no run folder and no checkpoint: it has neither checkpoints/step-N nor "
                    "model.safetensors");
  }
  return newest;
}

Checkpoint load_checkpoint(const std::filesystem::path& folder, std::optional<Index> window) {
  const std::filesystem::path config_path = folder / "config.json";
  const nlohmann::json json = read_json(config_path);
  Checkpoint checkpoint;
  try {
    ModelConfig config;
    config.settings().read(json.at("model"));
    if (window) config.attention.window = *window;
    checkpoint.symbols = utf8::utf8to32(json.at("symbols").get<std::string>());
    checkpoint.model =
        std::make_unique<LanguageModel>(config, static_cast<Index>(checkpoint.symbols.size()));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(config_path.string() + ": " + error.what());
  } catch (const DataError&) {
    throw;
  } catch (const Error& error) {
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
    read_into(tensor, parameters.value({i}));
  }
  if (file.tensors().size() == parameters.size()) return;
  for (const TensorView& tensor : file.tensors()) {
    try {
      parameters.find(tensor.name);
    } catch (const ShapeError&) {
      throw DataError(tensor.source + ": " + tensor.name + " is no weight of the configured model");
    }
  }
}

}  // namespace headcount
