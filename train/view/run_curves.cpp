#include "train/view/run_curves.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "models/cost/cost.h"
#include "train/run/loaded.h"
#include "train/run/record.h"
#include "train/run/state.h"
#include "train/show/fields.h"

namespace headcount {

namespace fs = std::filesystem;

namespace {

// Parameters of the newest checkpoint's model; null before the first.
Json parameters_in(const fs::path& folder) {
  const std::optional<fs::path> checkpoint = find_checkpoint(folder);
  if (!checkpoint) return nullptr;
  const NamedConfig config = load_config(*checkpoint);
  return LanguageModel(config.model, config.vocabulary).parameters().element_count();
}

Json read_run(const std::string& folder) {
  const fs::path path = folder;
  for (const char* file : {kRecord, "metrics.jsonl"}) {
    if (is_there(path / file)) continue;
    throw DataError("'{}' is no run folder: it has no {}; {}", folder, file,
                    is_there(path / "results.json")
                        ? "name the runs of that comparison, folders below " + folder + "/runs"
                        : "name the folder of a training run");
  }
  const TrainOptions options = read_run_options(folder);
  const RunRecord record = read_run_record(path);
  const std::vector<LoggedStep> steps = read_metrics(path);
  if (steps.empty())
    throw DataError(
        "{} has no whole line: no step of the run is recorded yet; continue it by `resume` {}",
        (path / "metrics.jsonl").string(), shell_word(folder));
  LoggedStep evaluated;  // the newest of these
  Json curve = Json::array();
  for (const LoggedStep& at : steps) {
    if (at.validation_loss) evaluated = at;
    curve.push_back(json_of(at));
  }
  return {{"run", folder},
          {"folder", folder},
          {"attention", options.model->word},
          {"params", parameters_in(path)},
          {"kv_cache_bytes_per_token", json_number(kv_cache_bytes_per_token(options.model))},
          {"context", options.model->context},
          {"steps_done", steps.back().step.step},
          {"train_loss", steps.back().step.loss},
          {"val_loss", or_null(evaluated.validation_loss)},
          {"val_answer_accuracy", or_null(evaluated.answer_accuracy)},
          {"data_sha256", record.data_sha256},
          {"settings", to_json(options)},
          {"starts", json_of(record.starts)},
          {"curve", std::move(curve)}};
}

// Throws SettingError if two paths name one folder.
void require_different(const std::vector<std::string>& folders) {
  std::set<fs::path> seen;
  for (const std::string& folder : folders) {
    std::error_code error;
    if (!seen.insert(fs::weakly_canonical(folder, error)).second)
      throw SettingError("`from` names the run in {} twice; name it once", folder);
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

// One line per run and step; a value that a step did not measure is empty.
std::string curves_csv(const Json& curves) {
  std::vector<Json> points;
  for (const Json& run : curves.at("runs")) {
    for (const Json& point : run.at("curve")) {
      points.push_back({{"run", run.at("run")}});
      points.back().update(point);
    }
  }
  std::vector<Column<Json>> columns;
  for (const std::string key : {"run", "step", "loss", "val_loss", "val_accuracy",
                                "val_answer_accuracy", "lr", "grad_norm", "stopped"}) {
    if (std::ranges::any_of(points, [&](const Json& point) { return point.contains(key); }))
      columns.push_back(
          {key, key, {}, [=](const Json& point) { return point.value(key, Json()); }});
  }
  return csv_table(columns, points);
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
  if (format == Format::json) return curves.dump(2) + "\n";
  if (format == Format::csv) return curves_csv(curves);
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
  return text_table(columns, runs, format, width, {"context", "seed", "params", "attention"});
}

}  // namespace headcount
