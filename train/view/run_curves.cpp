#include "train/view/run_curves.h"

#include <algorithm>
#include <array>
#include <set>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "models/checkpoint/checkpoint.h"
#include "models/cost.h"
#include "train/compare/number_text.h"
#include "train/run/loaded.h"
#include "train/table.h"

namespace headcount {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

CurveRow row_of(std::string_view line) {
  CurveRow row = parse_json(line);
  if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer())
    throw DataError("it must be an object with a whole number as 'step'");
  if (row.contains("loss")) {
    row["train_loss"] = row["loss"];
    row.erase("loss");
  }
  return row;
}

std::vector<CurveRow> read_metrics(const fs::path& file) {
  std::error_code none;
  const bool begun = fs::file_size(file, none) > 0;  // read_file refuses an empty file
  const std::string text = begun ? read_file(file) : "";
  std::vector<CurveRow> rows;
  for (std::size_t from = 0, end; (end = text.find('\n', from)) != text.npos; from = end + 1) {
    try {
      rows.push_back(row_of(std::string_view(text).substr(from, end - from)));
    } catch (const DataError& error) {
      throw DataError(file.string(), ", line ", rows.size() + 1, ", is damaged: ", error.what());
    }
  }
  if (rows.empty())
    throw DataError(file.string(), " has no whole line: no step of the run is recorded yet; ",
                    "continue it by `resume` ", shell_word(file.parent_path().string()));
  return rows;
}

std::optional<Index> parameters_in(const fs::path& folder) {
  const std::optional<fs::path> checkpoint = find_checkpoint(folder);
  if (!checkpoint) return std::nullopt;
  const NamedConfig config = load_config(*checkpoint);
  return LanguageModel(config.model, config.vocabulary).parameters().element_count();
}

RunCurves read_run(const std::string& folder) {
  const fs::path path = folder;
  for (const char* file : {"config.json", "metrics.jsonl"}) {
    if (is_there(path / file)) continue;
    throw DataError("'", folder, "' is no run folder: it has no ", file,
                    is_there(path / "results.json")
                        ? "; name the runs of that comparison, folders below " + folder + "/runs"
                        : "; name the folder of a training run");
  }
  return {.name = folder,
          .folder = path,
          .options = read_run_options(folder),
          .record = read_run_record(path),
          .parameters = parameters_in(path),
          .rows = read_metrics(path / "metrics.jsonl")};
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

// Names that tell the paths apart: paths without their common leading and trailing folders.
void name_by_difference(std::vector<RunCurves>& runs) {
  std::vector<std::vector<std::string>> parts;
  for (const RunCurves& run : runs) {
    std::vector<std::string>& all = parts.emplace_back();
    for (const fs::path& part : fs::absolute(run.folder).lexically_normal())
      if (!part.empty()) all.push_back(part.string());
  }
  const auto alike = [&](auto part_of) {
    return std::ranges::all_of(parts,
                               [&](const auto& p) { return part_of(p) == part_of(parts[0]); });
  };
  std::size_t shortest = parts[0].size(), front = 0, back = 0;
  for (const auto& p : parts) shortest = std::min(shortest, p.size());
  while (front + 1 < shortest && alike([&](const auto& p) { return p[front]; })) ++front;
  while (front + back + 1 < shortest &&
         alike([&](const auto& p) { return p[p.size() - 1 - back]; }))
    ++back;
  if (runs.size() == 1) back = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].name.clear();
    for (std::size_t k = front; k < parts[i].size() - back; ++k)
      runs[i].name += (runs[i].name.empty() ? "" : "/") + parts[i][k];
  }
}

// Names of values that any row has, well-known ones first.
std::vector<std::string> value_names(const std::vector<RunCurves>& runs) {
  std::set<std::string> all;
  for (const RunCurves& run : runs) {
    for (const CurveRow& row : run.rows) {
      for (const auto& [name, value] : row.items()) all.insert(name);
    }
  }
  std::vector<std::string> names;
  for (const char* known : {"step", "train_loss", "val_loss", "val_accuracy", "val_answer_accuracy",
                            "lr", "grad_norm"}) {
    if (all.erase(known) > 0) names.emplace_back(known);
  }
  names.insert(names.end(), all.begin(), all.end());
  return names;
}

}  // namespace

Index RunCurves::steps_done() const { return rows.back()["step"].get<Index>(); }

std::optional<double> RunCurves::last(std::string_view key) const {
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    const auto found = row->find(key);
    if (found != row->end() && found->is_number()) return found->get<double>();
  }
  return std::nullopt;
}

std::vector<RunCurves> read_runs(const std::vector<std::string>& folders) {
  require_different(folders);
  std::vector<RunCurves> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(folder));
  name_by_difference(runs);
  return runs;
}

Json curves_json(const std::vector<RunCurves>& runs) {
  const std::vector<std::string> names = value_names(runs);
  Json all = Json::array();
  for (const RunCurves& run : runs) {
    Json object = {
        {"run", run.name},
        {"folder", run.folder.string()},
        {"attention", run.options.model->attention},
        {"params", run.parameters ? Json(*run.parameters) : Json()},
        {"kv_cache_bytes_per_token", json_number(kv_cache_bytes_per_token(run.options.model))},
        {"context", run.options.model->context},
        {"steps_done", run.steps_done()}};
    for (const char* key : {"train_loss", "val_loss", "val_answer_accuracy"})
      object[key] = or_null(run.last(key));
    object["data_sha256"] = run.record.data_sha256;
    object["settings"] = to_json(run.options);
    Json& starts = object["starts"] = Json::array();
    for (const RunStart& start : run.record.starts) {
      starts.push_back({{"from_step", start.from_step},
                        {"command", start.command},
                        {"version", start.version},
                        {"machine", start.machine}});
    }
    Json& curve = object["curve"] = Json::array();
    for (const CurveRow& row : run.rows) {
      Json& point = curve.emplace_back(Json::object());
      for (const std::string& name : names)
        if (row.contains(name)) point[name] = row[name];
    }
    all.push_back(std::move(object));
  }
  return {{"runs", std::move(all)}};
}

std::string runs_table(const std::vector<RunCurves>& runs, Format format) {
  using Run = const RunCurves&;
  constexpr int kWords = -1;  // no number: left-aligned
  std::vector<Column<RunCurves>> columns;
  const auto add = [&](const char* heading, int decimals, auto value) {
    const auto text = [=](Run run) { return cell_text(value(run), decimals); };
    columns.push_back({heading, "", text, nullptr, decimals == kWords});
  };
  const auto newest = [](const char* key, double unit = 1) {
    return [=](Run run) {
      const std::optional<double> value = run.last(key);
      return value ? Json(unit * *value) : Json();
    };
  };
  add("run", kWords, [](Run run) { return Json(run.name); });
  add("attention", kWords, [](Run run) { return Json(run.options.model->attention); });
  add("params", 0, [](Run run) { return run.parameters ? Json(*run.parameters) : Json(); });
  add("KV B/token", 1,
      [](Run run) { return json_number(kv_cache_bytes_per_token(run.options.model)); });
  add("context", 0, [](Run run) { return Json(run.options.model->context); });
  add("seed", 0, [](Run run) { return Json(std::to_string(run.options.seed)); });
  add("steps", 0, [](Run run) { return Json(run.steps_done()); });
  add("train loss", 4, newest("train_loss"));
  add("val loss", 4, newest("val_loss"));
  if (std::ranges::any_of(runs, [](Run r) { return r.last("val_answer_accuracy").has_value(); }))
    add("answers right, %", 1, newest("val_answer_accuracy", 100));
  return text_table(columns, runs, format);
}

std::string curves_csv(const std::vector<RunCurves>& runs) {
  const std::vector<std::string> names = value_names(runs);
  std::string text = "run";
  for (const std::string& name : names) text += "," + name;
  for (const RunCurves& run : runs) {
    for (const CurveRow& row : run.rows) {
      text += "\r\n" + csv_field(run.name);
      for (const std::string& name : names) text += "," + csv_field(row.value(name, CurveRow()));
    }
  }
  return text + "\r\n";
}

}  // namespace headcount
