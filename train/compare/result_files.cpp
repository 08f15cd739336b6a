#include "train/compare/result_files.h"

#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/sha256.h"
#include "models/checkpoint/durable.h"
#include "train/run/place.h"
#include "train/run/provenance.h"
#include "train/run/record.h"

namespace headcount {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

fs::path result_file(const PlannedRun& run) { return run.folder / kResult; }
fs::path unfinished_file(const PlannedRun& run) { return run.folder / kUnfinished; }

// Checksum of `result`, which does not contain it yet.
std::string checksum(const json& result) { return sha256_hex(result.dump()); }

[[noreturn]] void refuse_damaged(const PlannedRun& run, const fs::path& file,
                                 const std::string& why) {
  throw DataError(file.string(), " is damaged (", why, "); remove ", run.folder.string(),
                  " to train that run again");
}

json read_object(const PlannedRun& run, const fs::path& file) {
  try {
    json object = parse_json(read_file(file));
    if (object.is_object()) return object;
  } catch (const DataError& error) {
    refuse_damaged(run, file, error.what());
  }
  refuse_damaged(run, file, "it must be a JSON object");
}

json read_result(const PlannedRun& run) {
  json result = read_object(run, result_file(run));
  const auto sum = result.find("sha256");
  if (sum == result.end())
    refuse_damaged(run, result_file(run), "it has no checksum, as an older headcount wrote it");
  const json written = *sum;
  result.erase(sum);
  if (written != checksum(result)) refuse_damaged(run, result_file(run), "its checksum differs");
  return result;
}

RunRecord record_of(const PlannedRun& run) {
  try {
    return read_run_record(run.folder);
  } catch (const DataError& error) {
    throw DataError(error.what(), "; remove ", run.folder.string(), " to train that run again");
  }
}

// Returns true if runs that differ in a setting are equal: how files are named and read, whose
// contents the basis has, and when a run is evaluated and saved.
bool is_no_part_of_identity(const std::string& name) {
  return name == "data" || name == "validation" || name == "newlines" || name == "init" ||
         name == "eval-every" || name == "checkpoint-every" || name == "keep";
}

// Throws OtherRunError unless the finished run had the settings of `run`.
void require_same_settings(const PlannedRun& run, const json& had) {
  const auto refuse = [&](const std::string& what) {
    throw OtherRunError(run.folder.string(), " holds a finished run ", what);
  };
  const json now = to_json(run.options);
  for (const Setting& setting : training_settings()) {
    const std::string& name = setting.name;
    if (is_no_part_of_identity(name)) continue;
    const json unlisted = setting.traits.quiet ? setting.standard.value : json();
    const json was = had.value(name, unlisted), is = now.value(name, unlisted);
    if (was == is) continue;
    if (was.is_null()) refuse("without " + name);
    refuse("with " + name + " " + was.dump() + (is.is_null() ? "" : ", not " + is.dump()));
  }
  for (const auto& [name, value] : had.items()) {
    if (find_setting(training_settings(), name) == nullptr)
      refuse("with " + name + " " + value.dump());
  }
}

// Measurements of a run as JSON.
json numbers(const RunResult& r) {
  json result = {{"val_loss", r.validation_loss},
                 {"train_tokens_per_second", r.train_tokens_per_second},
                 {"machine_seconds", r.machine_seconds},
                 {"curve_steps", r.curve_steps},
                 {"curve_losses", r.curve_losses}};
  if (r.tuning_loss) result["tuning_loss"] = *r.tuning_loss;
  if (r.answer_accuracy) result["answer_accuracy"] = *r.answer_accuracy;
  for (const AnswersAt& at : r.answers_by_distance) {
    result["answers_by_distance"].push_back(
        {{"from", at.from}, {"asked", at.asked}, {"right", at.right}});
  }
  if (!r.loss_by_position.empty()) result["loss_by_position"] = to_json(r.loss_by_position);
  return result;
}

void read_numbers(const json& result, RunResult& r) {
  r.validation_loss = result.at("val_loss");
  r.train_tokens_per_second = result.at("train_tokens_per_second");
  r.machine_seconds = result.at("machine_seconds");
  r.curve_steps = result.at("curve_steps").get<std::vector<Index>>();
  r.curve_losses = result.at("curve_losses").get<std::vector<double>>();
  if (result.contains("tuning_loss")) r.tuning_loss = result["tuning_loss"];
  if (result.contains("answer_accuracy")) r.answer_accuracy = result["answer_accuracy"];
  for (const json& at : result.value("answers_by_distance", json::array()))
    r.answers_by_distance.push_back({at.at("from"), at.at("asked"), at.at("right")});
  for (const json& at : result.value("loss_by_position", json::array()))
    r.loss_by_position.push_back({at.at("from"), at.at("characters"), at.at("loss")});
}

}  // namespace

void write_run_result(const PlannedRun& run, const RunResult& r, const json& basis,
                      const std::string& sharing) {
  // Stores the settings too, because config.json beside it may belong to another run by now.
  json result = numbers(r);
  result["settings"] = to_json(run.options);
  result["sharing"] = sharing;
  result.update(basis);
  result["sha256"] = checksum(result);
  write_file_durably(result_file(run), result.dump(2) + "\n");
  erase(unfinished_file(run));
}

std::optional<RunResult> read_run_result(const PlannedRun& run, const json& basis) {
  if (!is_there(result_file(run))) return std::nullopt;
  const json result = read_result(run);
  RunResult r;
  r.seed = run.options.seed;
  try {
    for (const auto& [key, value] : basis.items()) {
      if (result.at(key) == value) continue;
      throw OtherRunError(run.folder.string(), " holds a finished run ",
                          key == "init_sha256" ? "from other weights" : "on another text");
    }
    require_same_settings(run, result.at("settings"));
    read_object(run, run.folder / "config.json");  // throws if it is damaged
    read_numbers(result, r);
    // The speed is that of the last start that trained steps; a start at the last step trains none.
    for (const RunStart& start : record_of(run).starts) {
      if (start.from_step >= run.options.steps && start.from_step > 0) continue;
      r.version = start.version;
      r.machine = start.machine + "; " + result.at("sharing").get<std::string>();
    }
  } catch (const json::exception& error) {
    refuse_damaged(run, result_file(run), error.what());
  }
  return r;
}

namespace {

fs::path failure_file(const PlannedRun& run) { return run.folder / kFailed; }

// Identity of a run that failed: settings and basis.
json failed_run(const PlannedRun& run, const json& basis) {
  return {{"settings", to_json(run.options)}, {"basis", basis}};
}

// Identity of an unfinished run: an equal one resumes to the same bits.
json unfinished_run(const PlannedRun& run, const json& basis) {
  json settings = to_json(run.options);
  std::erase_if(settings.get_ref<json::object_t&>(),
                [](const auto& setting) { return is_no_part_of_identity(setting.first); });
  return {{"settings", settings}, {"basis", basis}, {"version", version_text()}};
}

void write_record(const fs::path& file, json identity, const char* key, const json& value) {
  identity[key] = value;
  write_file_durably(file, identity.dump(2) + "\n");
}

// Value of `key` in the record in `file`, as `parse` reads it; none if the file is absent or
// damaged, or if its identity differs from `identity`.
template <class Parse>
auto read_record(const fs::path& file, const json& identity, const char* key, const Parse& parse)
    -> std::optional<decltype(parse(json()))> {
  if (!is_there(file)) return std::nullopt;
  try {
    json object = parse_json(read_file(file));
    const json value = object.value(key, json());
    object.erase(key);
    if (object == identity && !value.is_null()) return parse(value);
  } catch (const DataError&) {
  } catch (const json::exception&) {
  }
  return std::nullopt;
}

}  // namespace

void forget_run(const PlannedRun& run) {
  for (const fs::path& file : {result_file(run), failure_file(run), unfinished_file(run)})
    erase(file);
}

void write_run_failure(const PlannedRun& run, const RunOutcome& outcome, const json& basis) {
  try {
    write_record(failure_file(run), failed_run(run, basis), "outcome", to_json(outcome));
  } catch (const WriteError&) {
    return;  // the process that collects finds that the run is missing
  }
}

std::optional<RunOutcome> read_run_failure(const PlannedRun& run, const json& basis) {
  return read_record(failure_file(run), failed_run(run, basis), "outcome", outcome_from);
}

void write_unfinished(const PlannedRun& run, const TimeSpent& spent, const json& basis) {
  write_record(unfinished_file(run), unfinished_run(run, basis), "spent",
               {{"machine_seconds", spent.machine_seconds},
                {"steps", spent.steps},
                {"step_seconds", spent.step_seconds}});
}

std::optional<TimeSpent> read_unfinished(const PlannedRun& run, const json& basis) {
  return read_record(
      unfinished_file(run), unfinished_run(run, basis), "spent", [](const json& spent) {
        return TimeSpent{spent.at("machine_seconds"), spent.at("steps"), spent.at("step_seconds")};
      });
}

json to_json(const RunOutcome& outcome) {
  json object = {{"failure", outcome.failure}, {"diverged", outcome.diverged}};
  if (!outcome.result) return object;
  const RunResult& r = *outcome.result;
  object["result"] = numbers(r);
  object["result"].update({{"seed", r.seed}, {"version", r.version}, {"machine", r.machine}});
  return object;
}

RunOutcome outcome_from(const json& object) {
  RunOutcome outcome;
  outcome.ended = true;
  outcome.failure = object.at("failure");
  outcome.diverged = object.at("diverged");
  if (!object.contains("result")) return outcome;
  const json& result = object["result"];
  RunResult& r = outcome.result.emplace();
  read_numbers(result, r);
  r.seed = result.at("seed");
  r.version = result.at("version");
  r.machine = result.at("machine");
  return outcome;
}

}  // namespace headcount
