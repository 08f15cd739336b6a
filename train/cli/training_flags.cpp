#include "train/cli/training_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"
#include "nn/attention/costs.h"
#include "train/cli/use_threads.h"
#include "train/run/lock.h"

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
  use_threads(given);
  use_folder_locks(given.on("lock"));
  return given.chosen("progress", kProgressModes);
}

namespace {

// The file that --config names as JSON; an empty object without the flag.
nlohmann::json read_config(const CommandLine& line) {
  if (!line.has("config")) return nlohmann::json::object();
  return recorded_settings(parse_json(read_file(line.get("config"))));
}

// Value of a setting from the first source that has it: flags, the configuration, `given`, the
// default. Empty if the value is not a text.
std::string text_for(const CommandLine& line, const nlohmann::json& config, const Given& given,
                     const std::string& name) {
  nlohmann::json value = given.get(name);
  if (config.is_object() && config.contains(name)) value = config[name];
  if (const std::string* text = line.setting(name)) value = *text;
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace

void put_preset_or_config(const CommandLine& line, Given& given,
                          const std::function<bool(const std::string&)>& is_another) {
  line.refuse_beside("config", {"preset"}, ": both give settings; name one of them");
  const std::string place = line.has("config") ? "--config " + line.get("config") + ": " : "";
  nlohmann::json config;
  try {
    config = read_config(line);
  } catch (const Error& error) {
    throw DataError(place, error.what());
  }
  if (line.has("preset")) {
    given.put(preset(line.get("preset")).settings);
  } else if (text_for(line, config, given, "init").empty()) {
    given.put(data_defaults(text_for(line, config, given, "data")));
  }
  try {
    Given of_config(given.known());
    of_config.put(config);
    if (of_config.has("attention") && is_another(of_config.text("attention")))
      of_config = for_another_attention(of_config);
    given.put_known(of_config.values());
  } catch (const Error& error) {
    throw DataError(place, error.what());
  }
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

// End of an error: the reason why `setting` has no effect in any of `runs`.
std::string reason(const Setting& setting, const std::vector<TrainOptions>& runs) {
  const TrainOptions& first = runs.front();
  if (const std::optional<std::string> value = setting.silenced_by(to_json(first))) {
    const OnlyWhere& where = *setting.traits.only_where;
    return "--" + std::string(where.setting) + " " + *value + ", which " +
           std::string(where.otherwise);
  }
  std::string chosen = "--attention " + attentions(runs);
  if (setting.traits.scope == Scope::data) chosen = "--data " + first.data;
  if (setting.traits.scope == Scope::optimizer)
    chosen = "--optimizer " + std::string(first.optimizer.kind->name);
  return chosen + (setting.only_for.empty() ? "" : " (it is for " + joined(setting.only_for) + ")");
}

// Returns true if the width `rope-dim` of a layer of `run` has an effect: RoPE rotates it, or it is
// that of a cached row.
bool heeds_rope_dim(const TrainOptions& run) {
  return run.model->positions == Positions::rope ||
         std::ranges::any_of(run.model->cycle, [](const AttentionPlan& layer) {
           return std::ranges::count(cache_parts(layer), "rope_key", &Kept::name) > 0;
         });
}

// Throws UsageError for a setting of rotary positions that no layer of `runs` has.
void refuse_idle_rotation(const Setting& setting, const std::string& text,
                          const std::vector<TrainOptions>& runs) {
  const auto has_no_pair = [](const AttentionPlan& layer) {
    return layer.rotary && layer.head_dim == 1 && layer.values().value("rope-dim", Index{2}) == 0;
  };
  if (setting.name == "head-dim" && std::ranges::any_of(runs, [&](const TrainOptions& run) {
        return std::ranges::any_of(run.model->cycle, has_no_pair);
      })) {
    throw UsageError("--head-dim ", text,
                     " leaves --positions rope no pair of dimensions to rotate; raise it");
  }
  if (setting.name == "rope-dim" && std::ranges::none_of(runs, heeds_rope_dim)) {
    throw UsageError("--rope-dim ", text, " rotates nothing with --positions ",
                     setting_text(to_json(runs.front())["positions"]), "; leave it out");
  }
  const std::optional<OnlyWhere>& where = setting.traits.only_where;
  const bool rotates = (where && where->setting == "positions") ||
                       (setting.name == "positions" && setting.value(text) == "rope");
  const auto heeds = [](const TrainOptions& run) {
    return run.model->positions != Positions::rope ||
           std::ranges::any_of(run.model->cycle, &AttentionPlan::rotary);
  };
  if (!rotates || std::ranges::any_of(runs, heeds)) return;
  throw UsageError("--", setting.name, " ", text, " rotates nothing: --attention ",
                   attentions(runs), " has no rotary positions; leave it out");
}

}  // namespace

void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs) {
  for (const auto& [name, text] : line.settings) {
    const Setting* const setting = find_setting(training_settings(), name);
    // A comparison takes a list of attentions, and each run has one of them.
    if (setting == nullptr || name == "attention") continue;
    refuse_idle_rotation(*setting, text, runs);
    const nlohmann::ordered_json value = setting->value(text);
    bool known = false, heeded = false;
    for (const TrainOptions& run : runs) {
      const nlohmann::ordered_json settings = to_json(run);
      known = known || settings.contains(name);
      heeded = heeded || (settings.contains(name) && settings[name] == value);
    }
    const bool left_out = setting->traits.quiet && nlohmann::json(value) == setting->standard.value;
    if (heeded || (left_out && !known)) continue;
    if (known) {
      std::string by = "--attention " + attentions(runs);
      if (line.setting("match")) by += " or --match";
      if (line.setting("sweep")) by += " or --sweep";
      throw changes_nothing(name, text, by);
    }
    throw UsageError("--", name, " has no effect with ", reason(*setting, runs));
  }
}

}  // namespace headcount
