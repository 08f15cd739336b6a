#include "train/compare/result_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "models/checkpoint/durable.h"
#include "train/compare/premises.h"
#include "train/compare/results.h"
#include "train/run/place.h"
#include "train/run/provenance.h"
#include "train/run/record.h"
#include "train/show/units.h"

namespace headcount {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

fs::path result_file(const RunPlan& run) { return run.folder / kResult; }
fs::path unfinished_file(const RunPlan& run) { return run.folder / kUnfinished; }
fs::path failure_file(const RunPlan& run) { return run.folder / kFailed; }

// Returns true if runs that differ in a setting are equal: how files are named and read, whose
// contents the basis has, and when a run is saved, and evaluated unless that `may_end_it`.
bool is_no_part_of_identity(const std::string& name, bool may_end_it) {
  if (name == "eval-every") return !may_end_it;
  return name == "data" || name == "validation" || name == "newlines" || name == "init" ||
         name == "checkpoint-every" || name == "keep";
}

// The value of a setting in a list of settings; null if it is not in the list.
json value_in(const json& settings, const Setting& setting) {
  return settings.value(setting.name, setting.traits.quiet ? setting.standard.value : json());
}

// What differs between the values of a setting: "with width 64, not 32". Empty if nothing does.
std::string difference(const Setting& setting, const json& had, const json& now) {
  const json was = value_in(had, setting), is = value_in(now, setting);
  if (was == is) return "";
  if (was.is_null()) return "without " + setting.name;
  return "with " + setting.name + " " + was.dump() + (is.is_null() ? "" : ", not " + is.dump());
}

// What differs between `run` on this basis and `had`, the record of a run in its folder: "with
// width 64, not 32". Empty if nothing does.
std::string difference(const RunPlan& run, const json& had, const json& basis) {
  for (const auto& [key, value] : basis.items()) {
    if (had.at(key) != value) return "on another text";
  }
  const json& settings = had.at("settings");
  const json now = to_json(run.options);
  for (const Setting& setting : training_settings()) {
    if (is_no_part_of_identity(setting.name, run.options.stops_when_learned())) continue;
    if (const std::string text = difference(setting, settings, now); !text.empty()) return text;
  }
  for (const auto& [name, value] : settings.items()) {
    if (find_setting(training_settings(), name) == nullptr)
      return "with " + name + " " + value.dump();
  }
  return "";
}

// What differs between what two comparisons make of all their attentions, whose settings by an
// attention, `match` or `sweep` may differ.
std::string difference(const ComparisonResult& had, const ComparisonResult& now) {
  if (had.data_sha256 != now.data_sha256) return "on another text";
  const auto text = [](const char* name, const std::string& was, const std::string& is) {
    const auto named = [](const std::string& value) { return value.empty() ? "none" : value; };
    return std::string("with ") + name + " " + named(was) + ", not " + named(is);
  };
  if (had.match != now.match) return text("match", had.match, now.match);
  if (had.sweep != now.sweep) return text("sweep", had.sweep, now.sweep);
  const bool may_end_it = now.question.metric == Metric::steps;
  for (const Setting& setting : training_settings()) {
    if (setting.name == "attention" || setting.traits.scope == Scope::attention ||
        setting.name == swept_setting(now) || is_no_part_of_identity(setting.name, may_end_it) ||
        value_in(had.config, setting).is_null() || value_in(now.config, setting).is_null())
      continue;
    if (const std::string of = difference(setting, had.config, now.config); !of.empty()) return of;
  }
  return "";
}

// What the results have that a comparison of `specs` with these seeds would drop: "with gqa2",
// "with 5 seeds, not 3". Empty if nothing is.
std::string dropped(const ComparisonResult& had, const std::vector<AttentionSpec>& specs,
                    const SeedRange& seeds) {
  for (const VariantResult& variant : had.variants) {
    if (std::ranges::find(specs, variant.spec, &AttentionSpec::text) == specs.end())
      return "with " + variant.spec;
  }
  if (std::ssize(had.seeds) <= seeds.last) return "";
  return "with " + counted(std::ssize(had.seeds), "seed") + ", not " + std::to_string(seeds.last);
}

}  // namespace

void require_same_comparison(const fs::path& folder, const ComparisonResult& comparison,
                             const std::vector<AttentionSpec>& specs) {
  const fs::path file = folder / kResults;
  if (!is_there(file)) return;
  ComparisonResult had;
  try {
    had = read_json(read_file(file), file.string() + " is damaged",
                    [](const json& results) { return read_results(results); });
  } catch (const DataError& error) {
    throw DataError("{}; remove it, or add `force` to train all runs again", error.what());
  }
  std::string other = difference(had, comparison);
  if (other.empty()) other = dropped(had, specs, comparison.question.seeds);
  if (other.empty()) return;
  throw OtherRunError("{} has the results of another comparison, {}: that was {}, and this is {}",
                      folder.string(), other, had.command, comparison.command);
}

json run_basis(const Corpus& corpus) {
  // Beside the hash and not in the settings, which earlier versions recorded without `newlines`.
  // Characters for tuning are the first; earlier versions, which took the last, recorded a number.
  const std::size_t tuning = corpus.tuning.tokens.size();
  return {{"data_sha256", corpus.sha256 + (corpus.newlines_replaced ? ", unix" : "")},
          {"train_characters", corpus.train.tokens.size()},
          {"tuning_characters", tuning == 0 ? json(0) : json({0, tuning})}};
}

void write_run_result(const RunPlan& run, const RunResult& r, const json& basis,
                      const std::string& sharing) {
  // Stores the settings too, because config.json beside it may belong to another run by now.
  json result = json_of(r);
  result["settings"] = to_json(run.options);
  result["sharing"] = sharing;
  result.update(basis);
  write_file_durably(result_file(run), result.dump(2) + "\n");
  erase(unfinished_file(run));
  erase(failure_file(run));
}

namespace {

// Result of `run` in its folder; none if the run has not finished.
std::optional<RunResult> read_run_result(const RunPlan& run, const json& basis) {
  if (!is_there(result_file(run))) return std::nullopt;
  RunResult r;
  std::string other, sharing;
  try {
    read_json(read_file(result_file(run)), result_file(run).string() + " is damaged",
              [&](const json& result) {
                other = difference(run, result, basis);
                if (!other.empty()) return;
                read_from(result, r);
                sharing = result.at("sharing");
              });
    r.seed = run.options.seed;
    // The speed is that of the last start that trained steps; a start at the last step trains none.
    for (const RunStart& start : read_run_record(run.folder).starts) {
      if (start.from_step >= run.options.steps && start.from_step > 0) continue;
      r.version = start.version;
      r.machine = start.machine + "; " + sharing;
    }
  } catch (const DataError& error) {
    throw DataError("{}; remove {} to train that run again", error.what(), run.folder.string());
  }
  if (!other.empty()) throw OtherRunError("{} holds a finished run {}", run.folder.string(), other);
  return r;
}

// Identity of a run that has not finished: an equal one resumes to the same bits, or fails alike.
json identity_of(const RunPlan& run, const json& basis) {
  json settings = to_json(run.options);
  std::erase_if(settings.get_ref<json::object_t&>(), [&](const auto& setting) {
    return is_no_part_of_identity(setting.first, run.options.stops_when_learned());
  });
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

void write_run_failure(const RunPlan& run, const RunStatus& status, const json& basis) {
  try {
    write_record(failure_file(run), identity_of(run, basis), "outcome",
                 {{"failure", status.failure}, {"diverged", status.diverged}});
  } catch (const WriteError&) {
    return;
  }
}

std::optional<RunStatus> read_run_status(const RunPlan& run, const json& basis) {
  if (auto result = read_run_result(run, basis))
    return RunStatus{true, std::move(result), "", false};
  return read_record(
      failure_file(run), identity_of(run, basis), "outcome", [](const json& outcome) {
        return RunStatus{true, std::nullopt, outcome.at("failure"), outcome.at("diverged")};
      });
}

void forget_run(const RunPlan& run) {
  for (const fs::path& file : {result_file(run), failure_file(run), unfinished_file(run)})
    erase(file);
}

void forget_failure(const RunPlan& run) { erase(failure_file(run)); }

void write_unfinished(const RunPlan& run, double machine_seconds, const json& basis) {
  write_record(unfinished_file(run), identity_of(run, basis), "spent",
               {{"machine_seconds", machine_seconds}});
}

std::optional<double> read_unfinished(const RunPlan& run, const json& basis) {
  return read_record(unfinished_file(run), identity_of(run, basis), "spent",
                     [](const json& spent) { return spent.at("machine_seconds").get<double>(); });
}

void require_same_run(const RunPlan& run, const json& basis) {
  std::string other;
  try {
    json had = parse_json(read_file(unfinished_file(run)));
    had.update(had.at("basis"));
    other = difference(run, had, basis);
  } catch (const DataError&) {  // not written yet, or finished by now
  } catch (const json::exception&) {
  }
  if (!other.empty())
    throw OtherRunError("{} is in use by another process for a run {}", run.folder.string(), other);
}

}  // namespace headcount
