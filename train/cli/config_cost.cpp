#include "train/cli/config_cost.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "models/checkpoint/contents.h"
#include "models/config_cache.h"
#include "models/released_models.h"
#include "train/options.h"
#include "train/units.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Greatest configuration that is read, bytes: real ones have a few thousand.
constexpr std::uintmax_t kMostBytes = 16 << 20;

fs::path file_of(const std::string& path) {
  return fs::is_directory(path) ? fs::path(path) / "config.json" : fs::path(path);
}

nlohmann::json parsed(const std::string& text, const std::string& name) {
  return read_json(text, name, [](const nlohmann::json& json) { return json; });
}

nlohmann::json read_config(const std::string& path) {
  if (path != "-" && !fs::exists(path) && path.find('/') == path.npos && !path.ends_with(".json"))
    return released_model(path).config;
  std::string text;
  if (path == "-") {
    text.resize(kMostBytes + 1);
    std::cin.read(text.data(), std::ssize(text));
    text.resize(static_cast<std::size_t>(std::cin.gcount()));
  } else {
    const fs::path file = file_of(path);
    std::error_code error;
    if (fs::file_size(file, error) > kMostBytes && !error)
      throw DataError("{} has more than 16 MiB and is no config.json", file.string());
    text = read_file(file.string());
  }
  if (text.size() > kMostBytes) throw DataError("standard input is no config.json: over 16 MiB");
  return parsed(text, path == "-" ? "standard input" : file_of(path).string());
}

// Bytes of the weights beside the configuration; none if there are none.
std::optional<double> weight_bytes(const std::string& path) {
  if (path == "-") return {};
  const fs::path folder = file_of(path).parent_path();
  const fs::path index = folder / "model.safetensors.index.json";
  if (fs::exists(index)) {
    const nlohmann::json size = parsed(read_file(index.string()), index.string())
                                    .value("/metadata/total_size"_json_pointer, nlohmann::json());
    if (size.is_number()) return size.get<double>();
  }
  double bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    if (entry.path().extension() == ".safetensors") bytes += static_cast<double>(entry.file_size());
  }
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

CostQuestion question_of(const CommandLine& line, Index positions) {
  CostQuestion question;
  std::set<Index> contexts = {1 << 12, 1 << 15, 1 << 17};
  if (positions > 0) contexts.insert(positions);
  if (const std::string* const text = line.find("context")) {
    contexts.clear();
    for (const std::string_view part : split_text(*text, ','))
      contexts.insert(parse_value("context", tokens(1), part).get<Index>());
  }
  question.contexts.assign(contexts.begin(), contexts.end());
  Given rounding(cache_settings(), {{"cache-dtype", "bf16"}});
  put_flags(line, rounding);
  question.rounding = read_rounding(rounding);
  if (!question.rounding.parts.empty()) question.rounding.all.type = CacheType::bf16;  // the rest
  const auto whole = [&](const char* flag) {
    return parse_value(flag, WholeRange{1, 1 << 20}, line.get(flag)).get<Index>();
  };
  if (line.has("batch")) question.batch = whole("batch");
  if (line.has("shards")) question.shards = whole("shards");
  if (line.has("memory")) question.memory = bytes_named("memory", line.get("memory"));
  if (const std::string* const text = line.find("attention")) {
    for (const std::string_view spec : split_text(*text, ','))
      question.attentions.emplace_back(spec);
    if (question.rounding.all.recent > 0)
      throw UsageError("--cache-recent does not go with --attention and --config");
  }
  return question;
}

}  // namespace

CostAnswer costs_of_released_models() {
  struct Row {
    const ReleasedModel* model;
    ModelCache cache;
  };
  std::vector<Row> rows;
  for (const ReleasedModel& model : released_models())
    rows.push_back({&model, read_config_cache(model.config)});
  constexpr Index kContext = 1 << 17;
  constexpr CacheType kType = CacheType::bf16;
  const std::vector<Column<Row>> columns = {
      {"model", "model", {}, [](const Row& row) { return Json(row.model->name); }, true},
      number_column<Row>(
          "bf16 bytes\na token", "bytes_per_token",
          [](const Row& row) { return json_number(row.cache.bytes_per_token(kType)); },
          binary_text),
      number_column<Row>(
          "at 128 k\ntokens", "bytes_at_131072",
          [](const Row& row) { return row.cache.bytes(kContext, kType).total().value(); },
          binary_text),
      {"source", "source", {}, [](const Row& row) { return Json(row.model->source); }, true}};
  const Json all = json_rows(columns, rows);
  return {[=](Format shape) { return text_table(columns, rows, shape); }, all, all};
}

CostAnswer cost_of_config(const CommandLine& line) {
  constexpr std::string_view kRead[] = {"context", "cache-dtype", "cache-group", "cache-recent",
                                        "attention"};
  const SettingList all = together({model_settings(), cache_settings()});
  refuse_unread(line, all, [&](const Setting& setting, const std::string&) {
    return std::ranges::count(kRead, setting.name) > 0
               ? ""
               : "has no effect with --config, which gives sizes and asks for bytes alone";
  });
  const std::string path = line.get("config");
  const ModelCache cache =
      named_by("config", [&] { return read_config_cache(read_config(path), line.get("as")); });
  CostQuestion question = question_of(line, cache.context);
  question.weights = weight_bytes(path);
  cache.require_fit(question.rounding);
  CostAnswer answer = cost_of_cache(cache, question);
  answer.title = "KV cache of " + (path == "-" ? cache.type : path);
  return answer;
}

}  // namespace headcount
