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
  return named_error<DataError, Error>("--config " + path, [&] {
    // A run.json has more than settings.
    const nlohmann::json file = parse_json(read_file(path));
    config.put(recorded_settings(file.is_object() ? file.value("settings", file) : file));
    const bool another = config.has("attention") && is_another(config.text("attention"));
    return another ? for_another_attention(config) : config;
  });
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

// What gives `setting` another value than a flag, or no effect, in all of `runs`.
std::string chosen_by(const Setting& setting, const CommandLine& line,
                      const std::vector<TrainOptions>& runs) {
  const TrainOptions& first = runs.front();
  if (setting.traits.scope == Scope::data) return "--data " + first.data;
  if (setting.traits.scope == Scope::optimizer && !setting.for_all)
    return "--optimizer " + std::string(first.optimizer.kind->name);
  if (const std::string* const typed = line.find("attention")) return "--attention " + *typed;
  std::string attentions, last;  // of a sweep's values, each once
  for (const TrainOptions& run : runs) {
    if (run.model->attention != last)
      attentions += (last.empty() ? "" : ",") + run.model->attention;
    last = run.model->attention;
  }
  return "--attention " + attentions;
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

// Throws UsageError for a value of `setting`, named by its flag and the rest of `what`, that has no
// effect in any of `layers` that have the setting.
void refuse_idle(const Setting& setting, const std::string& what,
                 const std::vector<const AttentionPlan*>& layers) {
  std::string why;
  for (const AttentionPlan* const layer : layers) {
    const auto& values = layer->values();
    if (!values.contains(setting.name)) continue;
    if (!layer->rotary && only_rotates(setting, *layer)) {
      why =
          layer->kind().rotates
              ? "rotates nothing with `positions` " + setting_text(values["positions"])
              : "rotates nothing: " + std::string(layer->kind().name) + " has no rotary positions";
    } else if (setting.name == "head-dim" && layer->rotary && layer->head_dim == 1 &&
               values.value("rope-dim", Index{2}) == 0) {
      why = "leaves `positions` rope no pair of dimensions to rotate";
    } else {
      why = setting.silenced_by(values);
    }
    if (why.empty()) return;
  }
  if (!why.empty()) throw UsageError("--{} {} {}; leave it out", setting.name, what, as_flags(why));
}

}  // namespace

void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs) {
  std::vector<nlohmann::ordered_json> all;
  std::vector<const AttentionPlan*> layers;
  for (const TrainOptions& run : runs) {
    all.push_back(to_json(run));
    for (const AttentionPlan& layer : run.model->cycle) layers.push_back(&layer);
  }
  for (const auto& [name, text] : line.given)
    if (const Setting* const setting = find_setting(training_settings(), name))
      refuse_idle(*setting, text, layers);
  refuse_unread(line, training_settings(), all,
                [&](const Setting& setting) { return chosen_by(setting, line, runs); });
}

void refuse_idle_words(const std::string& spec, const ResolvedModel& model) {
  const std::vector<LayerSpec> words = parse_attention_spec(spec).cycle;
  for (std::size_t i = 0; i < words.size(); ++i) {
    for (const auto& [name, value] : words[i].settings.items())
      refuse_idle(*find_setting(attention_settings(), name), setting_text(value) + " in " + spec,
                  {&model.cycle[i]});
  }
}

}  // namespace headcount
