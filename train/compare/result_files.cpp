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

// Returns true if runs that differ in a setting are equal: how files are named and read, whose
// contents have a hash, and when a run is saved, and evaluated unless that `may_end_it`.
bool is_no_part_of_identity(const std::string& name, bool may_end_it) {
  if (name == "eval-every") return !may_end_it;
  return name == "data" || name == "validation" || name == "init" || name == "checkpoint-every" ||
         name == "keep";
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

// What differs between `run` on this text and `had`, the record of a run in its folder: "with
// width 64, not 32". Empty if nothing does.
std::string difference(const RunPlan& run, const RunRecord& had, const Corpus& corpus) {
  if (had.data_sha256 != corpus.sha256 || had.tuning_characters != std::ssize(corpus.tuning.tokens))
    return "on another text";
  const json settings = had.settings, now = to_json(run.options);
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
    had = read_json(read_file(file), file.string() + " cannot be read",
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

void write_run_result(const RunPlan& run, const RunResult& result) {
  RunRecord record = read_run_record(run.folder);
  record.status = RunRecord::kFinished;
  record.machine_seconds.reset();
  record.result = json_of(result);
  write_run_record(run.folder, std::move(record));
}

void write_run_failure(const RunPlan& run, const RunStatus& status, const Corpus& corpus) {
  try {
    RunRecord record = read_run_record(run.folder);
    if (record.status != RunRecord::kUnfinished || !difference(run, record, corpus).empty()) return;
    record.status = status.diverged ? RunRecord::kDiverged : RunRecord::kFailed;
    record.failure = status.failure;
    write_run_record(run.folder, std::move(record));
  } catch (const Error&) {
    return;
  }
}

namespace {

// How the run of this record ended, by its result.
RunStatus finished(const RunPlan& run, const RunRecord& record) {
  RunStatus status{true, RunResult(), "", false};
  named_error<DataError, Error>((run.folder / kRecord).string() + " is damaged",
                                [&] { read_from(record.result, *status.result); });
  status.result->rounded.clear();  // evaluate_rounded adds those that are asked for
  return status;
}

}  // namespace

std::optional<RunStatus> read_run_status(const RunPlan& run, const Corpus& corpus) {
  if (!is_there(run.folder / kRecord)) return std::nullopt;
  try {
    const RunRecord record = read_run_record(run.folder);
    if (record.version.empty() && !record.starts.empty())
      throw OtherRunError("{} holds a run of {}, whose results this version does not read",
                          run.folder.string(), record.starts.back().version);
    const std::string other = difference(run, record, corpus);
    if (record.status == RunRecord::kFinished) {
      if (other.empty()) return finished(run, record);
      throw OtherRunError("{} holds a finished run {}", run.folder.string(), other);
    }
    if (record.failure.empty() || !other.empty() || record.version != version_text())
      return std::nullopt;
    return RunStatus{true, std::nullopt, record.failure, record.status == RunRecord::kDiverged};
  } catch (const OtherRunError&) {
    throw;
  } catch (const DataError& error) {
    throw DataError("{}; remove {} to train that run again", error.what(), run.folder.string());
  }
}

void forget_run(const RunPlan& run) {
  try {
    RunRecord record = read_run_record(run.folder);
    record.status.clear();
    record.machine_seconds.reset();
    record.failure.clear();
    record.result.clear();
    write_run_record(run.folder, std::move(record));
  } catch (const DataError&) {  // nothing that could be taken for a result
  }
}

void forget_failure(const RunPlan& run) {
  try {
    const FolderLock lock(run.folder);
    RunRecord record = read_run_record(run.folder);
    if (record.status != RunRecord::kFailed) return;
    record.status = RunRecord::kUnfinished;
    record.failure.clear();
    write_run_record(run.folder, std::move(record));
  } catch (const LockedError&) {
    return;
  }
}

void write_unfinished(const RunPlan& run, double machine_seconds, const Corpus& corpus) {
  RunRecord record = read_run_record(run.folder);
  record.tuning_characters = std::ssize(corpus.tuning.tokens);
  record.status = RunRecord::kUnfinished;
  record.machine_seconds = machine_seconds;
  write_run_record(run.folder, std::move(record));
}

std::optional<double> read_unfinished(const RunPlan& run, const Corpus& corpus) {
  try {
    const RunRecord record = read_run_record(run.folder);
    if (record.status == RunRecord::kUnfinished && record.version == version_text() &&
        difference(run, record, corpus).empty())
      return record.machine_seconds;
  } catch (const DataError&) {  // no run, or one that is damaged
  }
  return std::nullopt;
}

void require_same_run(const RunPlan& run, const Corpus& corpus) {
  std::string other;
  try {
    const RunRecord record = read_run_record(run.folder);
    if (record.status == RunRecord::kUnfinished) other = difference(run, record, corpus);
  } catch (const DataError&) {  // not written yet
  }
  if (!other.empty())
    throw OtherRunError("{} is in use by another process for a run {}", run.folder.string(), other);
}

}  // namespace headcount
