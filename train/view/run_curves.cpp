#include "train/view/run_curves.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "models/cost.h"
#include "train/fields.h"
#include "train/run/loaded.h"
#include "train/run/record.h"

namespace headcount {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

// The values of `row`, well-known ones first.
Json in_order(nlohmann::json row) {
  Json point = Json::object();
  for (const char* known : {"step", "train_loss", "val_loss", "val_accuracy", "val_answer_accuracy",
                            "lr", "grad_norm"}) {
    if (!row.contains(known)) continue;
    point[known] = row[known];
    row.erase(known);
  }
  point.update(row);
  return point;
}

Json point_of(std::string_view line) {
  nlohmann::json row = parse_json(line);
  if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer())
    throw DataError("it must be an object with a whole number as 'step'");
  if (row.contains("loss")) {
    row["train_loss"] = row["loss"];
    row.erase("loss");
  }
  return in_order(std::move(row));
}

std::vector<Json> read_points(const fs::path& file) {
  std::error_code none;
  const bool begun = fs::file_size(file, none) > 0;  // read_file refuses an empty file
  const std::string text = begun ? read_file(file) : "";
  std::vector<Json> points;
  for (std::size_t from = 0, end; (end = text.find('\n', from)) != text.npos; from = end + 1) {
    try {
      points.push_back(point_of(std::string_view(text).substr(from, end - from)));
    } catch (const DataError& error) {
      throw DataError(file.string(), ", line ", points.size() + 1, ", is damaged: ", error.what());
    }
  }
  if (points.empty())
    throw DataError(file.string(), " has no whole line: no step of the run is recorded yet; ",
                    "continue it by `resume` ", shell_word(file.parent_path().string()));
  return points;
}

// Parameters of the newest checkpoint's model; null before the first.
Json parameters_in(const fs::path& folder) {
  const std::optional<fs::path> checkpoint = find_checkpoint(folder);
  if (!checkpoint) return nullptr;
  const NamedConfig config = load_config(*checkpoint);
  return LanguageModel(config.model, config.vocabulary).parameters().element_count();
}

Json read_run(const std::string& folder) {
  const fs::path path = folder;
  for (const char* file : {"config.json", "metrics.jsonl"}) {
    if (is_there(path / file)) continue;
    throw DataError("'", folder, "' is no run folder: it has no ", file,
                    is_there(path / "results.json")
                        ? "; name the runs of that comparison, folders below " + folder + "/runs"
                        : "; name the folder of a training run");
  }
  const TrainOptions options = read_run_options(folder);
  const RunRecord record = read_run_record(path);
  const std::vector<Json> curve = read_points(path / "metrics.jsonl");
  Json run = {{"run", folder},
              {"folder", folder},
              {"attention", options.model->attention},
              {"params", parameters_in(path)},
              {"kv_cache_bytes_per_token", json_number(kv_cache_bytes_per_token(options.model))},
              {"context", options.model->context},
              {"steps_done", curve.back()["step"]}};
  for (const char* key : {"train_loss", "val_loss", "val_answer_accuracy"}) {
    const auto has = [&](const Json& point) {
      return point.contains(key) && point[key].is_number();
    };
    const auto newest = std::find_if(curve.rbegin(), curve.rend(), has);
    run[key] = newest == curve.rend() ? Json() : Json((*newest)[key].get<double>());
  }
  run["data_sha256"] = record.data_sha256;
  run["settings"] = to_json(options);
  run["starts"] = json_of(record.starts);
  run["curve"] = curve;
  return run;
}

// Throws SettingError if two paths name one folder.
void require_different(const std::vector<std::string>& folders) {
  std::set<fs::path> seen;
  for (const std::string& folder : folders) {
    std::error_code error;
    if (!seen.insert(fs::weakly_canonical(folder, error)).second)
      throw SettingError("`from` names the run in ", folder, " twice; name it once");
  }
}

// Names that tell the paths apart: paths from the deepest folder that holds all of them.
void name_by_difference(Json& runs) {
  std::vector<fs::path> paths;
  for (const Json& run : runs) {
    const fs::path path = fs::absolute(std::string(run["folder"])).lexically_normal();
    paths.push_back(path.has_filename() ? path : path.parent_path());
  }
  fs::path common = paths.front().parent_path();
  const auto holds = [&](const fs::path& path) {
    return path != common && *path.lexically_relative(common).begin() != "..";
  };
  while (!std::ranges::all_of(paths, holds)) common = common.parent_path();
  for (std::size_t i = 0; i < runs.size(); ++i)
    runs[i]["run"] = paths[i].lexically_relative(common).string();
}

}  // namespace

Json read_runs(const std::vector<std::string>& folders) {
  require_different(folders);
  Json runs = Json::array();
  for (const std::string& folder : folders) runs.push_back(read_run(folder));
  if (!runs.empty()) name_by_difference(runs);
  return {{"runs", std::move(runs)}};
}

std::string runs_table(const Json& curves, Format format, std::size_t width) {
  const std::vector<Json> runs = curves.at("runs");
  std::vector<Column<Json>> columns;
  const auto add = [&](const char* heading, int decimals, const auto& value, bool words = false) {
    columns.push_back({heading, heading, {}, value, words, 0, decimals});
  };
  const auto of = [](const char* key) { return [key](const Json& run) { return run.at(key); }; };
  add("run", 0, of("run"), true);
  add("attention", 0, of("attention"), true);
  add("params", 0, of("params"));
  add("KV B/token", 1, of("kv_cache_bytes_per_token"));
  add("context", 0, of("context"));
  add("seed", 0, [](const Json& run) { return Json(run.at("settings").at("seed").dump()); });
  add("steps", 0, of("steps_done"));
  add("train loss", 4, of("train_loss"));
  add("val loss", 4, of("val_loss"));
  static constexpr const char* kAnswers = "val_answer_accuracy";
  if (std::ranges::any_of(runs, [](const Json& run) { return run.at(kAnswers).is_number(); })) {
    add("answers right, %", 1, [](const Json& run) {
      const Json& share = run.at(kAnswers);
      return share.is_number() ? Json(100 * share.get<double>()) : share;
    });
  }
  return narrow_table(columns, runs, format, width, {"context", "seed", "params", "attention"});
}

std::string curves_csv(const Json& curves) {
  nlohmann::json values = nlohmann::json::object();  // that any point has
  for (const Json& run : curves.at("runs"))
    for (const Json& point : run.at("curve")) values.update(nlohmann::json(point));
  const Json names = in_order(values);
  std::string text = "run";
  for (const auto& [name, value] : names.items()) text += "," + name;
  for (const Json& run : curves.at("runs")) {
    for (const Json& point : run.at("curve")) {
      text += "\r\n" + csv_field(run.at("run"));
      for (const auto& [name, value] : names.items())
        text += "," + csv_field(point.value(name, Json()));
    }
  }
  return text + "\r\n";
}

}  // namespace headcount
