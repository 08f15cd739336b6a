#include "train/cli/config_cost.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iostream>
#include <set>
#include <system_error>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/checkpoint/contents.h"
#include "models/cost/released_models.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

// Greatest configuration that is read, bytes: real ones have a few thousand.
constexpr std::uintmax_t kMostBytes = 16 << 20;

nlohmann::json parsed(const std::string& text, const std::string& name) {
  return read_json(
      text, name, [](const nlohmann::json& json) { return json; }, NonFinite::allowed);
}

// Bytes of a file of weights; none if it is not there, or a pointer of git-lfs in its place.
std::optional<double> bytes_of_weights(const fs::path& file) {
  constexpr std::uintmax_t kMostOfPointer = 1 << 10;
  if (!is_there(file)) return {};
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) throw DataError("cannot read {}: {}", file.string(), error.message());
  if (size <= kMostOfPointer && read_bytes(file).starts_with("version https://git-lfs")) return {};
  return static_cast<double>(size);
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
    std::ptrdiff_t parts = 0;
    std::from_chars(end.data() + 4, end.data() + end.size(), parts);
    if (std::ranges::count_if(names, [&](const auto& one) { return one.ends_with(end); }) != parts)
      throw DataError("parts of the weights are missing beside {}", (folder / name).string());
  }
  return names;
}

// Names of the files in the index of weights.
std::set<std::string> files_in(const nlohmann::json& index, const std::string& name) {
  std::set<std::string> names;
  for (const auto& file : index.value("weight_map", nlohmann::json::object())) {
    if (!file.is_string()) continue;
    names.insert(file.get<std::string>());
    if (file.get_ref<const std::string&>().find('/') != std::string::npos)
      throw DataError("{} names '{}', which is no file beside it", name, file.get<std::string>());
  }
  return names;
}

// The file at a path without one, if it is no released model.
[[noreturn]] void refuse_path(const fs::path& path) {
  std::string name = path.filename();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::string> names;
  for (const ReleasedModel& model : released_models()) names.push_back(model.name);
  throw DataError("there is no file or folder '{}'{}", path.string(), suggestion(name, names));
}

}  // namespace

ConfigFile read_config_file(const std::string& path) {
  if (path != "-" && !fs::exists(path) && path.find('/') == path.npos && !path.ends_with(".json")) {
    const ReleasedModel& model = released_model(path);
    return {model.name, model.config, model.settings, {}};
  }
  if (path == "-") {
    std::string text(kMostBytes + 1, '\0');
    std::cin.read(text.data(), std::ssize(text));
    text.resize(static_cast<std::size_t>(std::cin.gcount()));
    if (text.size() > kMostBytes) throw DataError("standard input is no config.json: over 16 MiB");
    return {"", parsed(text, "standard input"), {}, {}};
  }
  if (!fs::exists(path) && !path.ends_with(".json")) refuse_path(path);
  const fs::path file = fs::is_directory(path) ? fs::path(path) / kConfigFile : fs::path(path);
  std::error_code error;
  if (fs::file_size(file, error) > kMostBytes && !error)
    throw DataError("{} has more than 16 MiB and is no config.json", file.string());
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  return {"", parsed(read_file(file), file.string()), {}, folder};
}

std::optional<double> weight_bytes(const fs::path& folder) {
  const fs::path index = folder / "model.safetensors.index.json";
  std::set<std::string> names;
  std::optional<double> sum;
  if (is_there(index)) {
    const nlohmann::json all = parsed(read_file(index), index.string());
    if (!all.is_object()) throw DataError("{}: it must be a JSON object", index.string());
    names = files_in(all, index.string());
    const auto metadata = all.value("metadata", nlohmann::json());
    const auto size =
        metadata.is_object() ? metadata.value("total_size", nlohmann::json()) : nlohmann::json();
    if (size.is_number()) sum = size.get<double>();
    if (names.empty() && !sum) throw DataError("{} names no files", index.string());
  } else {
    names = files_of_weights(folder);
  }
  double bytes = 0;
  for (const std::string& name : names) {
    const std::optional<double> one = bytes_of_weights(folder / name);
    if (!one) return sum;
    bytes += *one;
  }
  return bytes > 0 ? bytes : sum;
}

}  // namespace headcount
