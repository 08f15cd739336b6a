#include "train/cli/training_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "data/built_in.h"
#include "models/attention_spec.h"
#include "models/checkpoint/checkpoint.h"
#include "nn/attention/costs.h"
#include "train/run/loaded.h"
#include "train/run/lock.h"
#include "train/run/record.h"

namespace headcount {

namespace {

constexpr Named<ProgressMode> kProgressModes[] = {{"auto", ProgressMode::automatic},
                                                  {"always", ProgressMode::always},
                                                  {"never", ProgressMode::never}};

}  // namespace

SettingList run_settings() {
  return settings_in(
      Scope::run,
      {threads_setting(),
       {"progress",
        "progress on standard error; auto: a line that is rewritten on a terminal, plain lines "
        "elsewhere; always: the rewritten line; never: none, as with quiet",
        kProgressModes, "auto"},
       {"lock",
        "lock the folders that are written, against other processes; off: for file systems without "
        "locks, if no other process writes there",
        kOnOff, "on"}});
}

ProgressMode use_run_settings(const Given& given) {
  use_folder_locks(given.on("lock"));
  return given.chosen("progress", kProgressModes);
}

namespace {

// Settings in the file that --config names; none without the flag.
Given read_config(const CommandLine& line, const SettingList& known,
                  const std::function<bool(const std::string&)>& is_another) {
  Given config(known);
  if (!line.has("config")) return config;
  const std::string path = line.get("config");
  try {
    // A run.json has more than settings.
    const nlohmann::json file = parse_json(read_file(path));
    config.put(recorded_settings(file.is_object() ? file.value("settings", file) : file));
    if (config.has("attention") && is_another(config.text("attention")))
      return for_another_attention(config);
  } catch (const Error& error) {
    throw DataError("--config {}: {}", path, error.what());
  }
  return config;
}

}  // namespace

void put_preset_or_config(const CommandLine& line, Given& given,
                          const std::function<bool(const std::string&)>& is_another) {
  line.refuse_beside("config", {"preset"}, ": both give settings; name one of them");
  const Given config = read_config(line, given.known(), is_another);
  // From the first source that has it: flags, the configuration, `given`, the default.
  const auto text = [&](const char* name) {
    if (const std::string* flag = line.find(name)) return *flag;
    return config.has(name) ? config.text(name) : given.text(name);
  };
  if (line.has("preset")) {
    given.put(preset(line.get("preset")).settings);
  } else if (text("init").empty()) {
    given.put(data_defaults(text("data")));
  }
  given.put_known(config.values());
}

TrainOptions new_options(const CommandLine& line) {
  Given given(training_settings());
  given.put("data", kDefaultData);
  const std::string* const attention = line.find("attention");
  put_preset_or_config(line, given, [&](const std::string& of_config) {
    return attention != nullptr && !std::ranges::equal(parse_attention_spec(*attention).cycle,
                                                       parse_attention_spec(of_config).cycle, {},
                                                       &LayerSpec::kind, &LayerSpec::kind);
  });
  put_flags(line, given);
  const std::string init = given.text("init");
  if (init.empty()) return resolve_training(given);
  const ModelPlan there =
      named_by("init", [&] { return load_config(require_checkpoint(init)).model; });
  require_same_model(init, given.of(model_settings(), "").values(), there->settings,
                     UseOfWeights::start);
  Given all(training_settings(), there->settings);
  all.put_known(given.values());
  return resolve_training(all);
}

namespace {

// Throws UsageError if a comparison trains `run`, which in a sweep holds back text, or if `steps`
// would make a run of a comparison longer than its others.
void check_comparison(const std::string& run, const TrainOptions& trained, Index steps) {
  const std::string status = read_run_record(run).status;
  if (!status.empty() && status != RunRecord::kFinished)
    throw UsageError(
        "--resume {}: a comparison has begun this run and goes on with it if its command is "
        "repeated; {}/run.json has that command",
        run, run);
  if (steps > trained.steps && !status.empty())
    throw UsageError(
        "--steps {}: the run in {} belongs to a comparison, whose runs have one length; begin a "
        "new run with its weights by headcount train --init {} --data {} --steps {}",
        steps, run, shell_word(run), shell_word(trained.data), steps);
}

// Returns true for a setting that names a file whose contents have a SHA-256 in the run's record.
bool is_text(const std::string& name) { return name == "data" || name == "validation"; }

bool names_file(const nlohmann::json& data) {
  return data.is_string() && data != "" && find_built_in(data.get<std::string>()) == nullptr;
}

}  // namespace

TrainOptions resumed_options(const CommandLine& line) {
  const std::string run = line.get("resume");
  line.refuse_beside("resume", {"out", "force", "preset", "config"},
                     ", which continues a run in its folder, with its settings");
  const TrainOptions trained = named_by("resume", [&] { return read_run_options(run); });
  const nlohmann::ordered_json before = to_json(trained);
  Given given(training_settings(), before);
  put_flags(line, given);
  const TrainOptions options = resolve_training(given);
  const nlohmann::ordered_json now = to_json(options);
  for (const Setting& setting : training_settings()) {
    const std::string& name = setting.name;
    const nlohmann::json was = before.value(name, setting.standard.value),
                         is = now.value(name, setting.standard.value);
    const bool may_differ =
        (name == "steps" && is > was) || (is_text(name) && names_file(was) && names_file(is));
    if (was == is || may_differ) continue;
    throw UsageError("--{} is {}, but the run in {} has {}; leave the flag out, or start a new run",
                     name, is.dump(), run, was.is_null() ? "none" : was.dump());
  }
  check_comparison(run, trained, options.steps);
  return options;
}

namespace {

// Attentions of `runs` with commas between them: "mha,gqa2".
std::string attentions(const std::vector<TrainOptions>& runs) {
  std::string text = runs.front().model->attention;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const std::string next = runs[i].model->attention;
    if (next != runs[i - 1].model->attention) text += "," + next;
  }
  return text;
}

// What gives `setting` another value than a flag, or no effect, in all of `runs`.
std::string chosen_by(const Setting& setting, const std::vector<TrainOptions>& runs) {
  const TrainOptions& first = runs.front();
  if (setting.traits.scope == Scope::data) return "--data " + first.data;
  if (setting.traits.scope == Scope::optimizer)
    return "--optimizer " + std::string(first.optimizer.kind->name);
  return "--attention " + attentions(runs);
}

// Returns true if all that `setting` can do in `layer` is to rotate.
bool only_rotates(const Setting& setting, const AttentionPlan& layer) {
  if (setting.name == "positions") return layer.positions == Positions::rope;
  if (setting.name == "rope-dim") {  // 0 rotates nothing anywhere, and others may be cached widths
    return layer.values().at("rope-dim") > 0 &&
           std::ranges::count(cache_parts(layer), "rope_key", &Kept::name) == 0;
  }
  const std::optional<OnlyWhere>& where = setting.traits.only_where;
  return where && where->setting == "positions";
}

// Says why `setting`, which `layer` has, has no effect there; empty if it has one.
std::string why_idle(const Setting& setting, const AttentionPlan& layer) {
  if (!layer.rotary && only_rotates(setting, layer)) {
    return layer.kind().rotates
               ? "rotates nothing with `positions` " + setting_text(layer.values()["positions"])
               : "rotates nothing: " + std::string(layer.kind().name) + " has no rotary positions";
  }
  if (setting.name == "head-dim" && layer.rotary && layer.head_dim == 1 &&
      layer.values().value("rope-dim", Index{2}) == 0)
    return "leaves `positions` rope no pair of dimensions to rotate";
  return setting.silenced_by(layer.values());
}

// Says why `setting` has no effect in any layer of `runs` that has it; empty if it has one.
std::string why_idle(const Setting& setting, const std::vector<TrainOptions>& runs) {
  std::string why;
  for (const TrainOptions& run : runs) {
    for (const AttentionPlan& layer : run.model->cycle) {
      if (!layer.values().contains(setting.name)) continue;
      why = why_idle(setting, layer);
      if (why.empty()) return "";
    }
  }
  return why;
}

}  // namespace

void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs) {
  std::vector<nlohmann::ordered_json> all;
  for (const TrainOptions& run : runs) all.push_back(to_json(run));
  refuse_unread(line, training_settings(), [&](const Setting& setting, const std::string& text) {
    // A comparison takes a list of attentions, and each run has one of them.
    if (setting.name == "attention") return std::string();
    if (const std::string why = why_idle(setting, runs); !why.empty())
      return text + " " + as_flags(why) + "; leave it out";
    const nlohmann::ordered_json value = setting.value(text);
    const auto has = [&](const auto& run) { return run.contains(setting.name); };
    const bool known = std::ranges::any_of(all, has);
    const bool heeded = std::ranges::any_of(
        all, [&](const auto& run) { return has(run) && run[setting.name] == value; });
    const bool left_out = setting.traits.quiet && nlohmann::json(value) == setting.standard.value;
    if (heeded || (left_out && !known)) return std::string();
    if (known) {
      std::string by = "--attention " + attentions(runs);
      if (line.has("match")) by += " or --match";
      if (line.has("sweep")) by += " or --sweep";
      return changes_nothing(setting.name, text, by);
    }
    const std::string why = setting.silenced_by(all.front());
    return why.empty() ? no_effect(setting, chosen_by(setting, runs)) : as_flags(why);
  });
}

void refuse_idle_words(const std::string& spec, const ResolvedModel& model) {
  const std::vector<LayerSpec> words = parse_attention_spec(spec).cycle;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (const auto& [name, value] : words[i].settings.items()) {
      const Setting& setting = *find_setting(attention_settings(), name);
      const std::string why = why_idle(setting, model.cycle[i]);
      if (!why.empty())
        throw UsageError("--{} {} in {} {}; leave it out", name, setting_text(value), spec,
                         as_flags(why));
    }
  }
}

}  // namespace headcount
