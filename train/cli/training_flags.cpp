#include "train/cli/training_flags.h"

#include <utf8.h>

#include <nlohmann/json.hpp>

#include "autograd/base/files.h"
#include "autograd/base/json.h"
#include "autograd/base/text.h"

namespace headcount {

namespace {

constexpr Field<RunOptions> kRunFields[] = {
    whole<&RunOptions::threads>("threads", "0: all processors; results do not depend on it", 0,
                                1024),
    choice<&RunOptions::progress>("progress", "on standard error",
                                  {{"auto", ProgressMode::automatic},
                                   {"always", ProgressMode::always},
                                   {"never", ProgressMode::never}}),
    on_off<&RunOptions::lock>(
        "lock",
        "off: train where the file system cannot lock folders; no other process may write to the "
        "same one")};

}  // namespace

SettingList run_settings() { return settings_of(kRunFields, Scope::run); }

RunOptions read_run_options(const Given& given) { return read_fields(kRunFields, given); }

void check_paths(const CommandLine& line) {
  for (const char* flag : {"out", "resume", "config", "logits", "data"}) {
    if (!line.has(flag)) continue;
    const std::string path = line.get(flag), name = std::string("--") + flag;
    if (path.empty()) throw UsageError(name + " is empty; give a path, or leave it out");
    if (!utf8::is_valid(path)) throw UsageError(name + " must be UTF-8; name another path");
  }
}

namespace {

// What --config names; an empty object without it.
nlohmann::json read_config(const CommandLine& line) {
  if (!line.has("config")) return nlohmann::json::object();
  return parse_json(read_file(line.get("config")));
}

// The text that flag, configuration or `given` have for a setting, or its default.
std::string text_for(const CommandLine& line, const nlohmann::json& config, const Given& given,
                     const std::string& name) {
  nlohmann::json value = given.get(name, find_setting(given.known(), name)->neutral);
  if (config.is_object() && config.contains(name)) value = config[name];
  if (const std::string* text = line.setting(name)) value = *text;
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace

void put_preset_and_config(const CommandLine& line, Given& given) {
  const std::string place = line.has("config") ? "--config " + line.get("config") + ": " : "";
  nlohmann::json config;
  try {
    config = read_config(line);
  } catch (const Error& error) {
    throw DataError(place + error.what());
  }
  if (line.has("preset")) {
    given.put(preset(line.get("preset")).settings);
  } else if (text_for(line, config, given, "init").empty()) {
    given.put(data_defaults(text_for(line, config, given, "data")));
  }
  try {
    given.put(config);
  } catch (const Error& error) {
    throw DataError(place + error.what());
  }
}

namespace {

// "mha,gqa2".
std::string attentions(const std::vector<TrainOptions>& runs) {
  std::string text = runs.front().model->attention;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const std::string next = runs[i].model->attention;
    if (next != runs[i - 1].model->attention) text += "," + next;
  }
  return text;
}

// Why `setting` means nothing to any of `runs`.
std::string reason(const Setting& setting, const std::vector<TrainOptions>& runs) {
  const TrainOptions& first = runs.front();
  if (const std::optional<OnlyWhere>& where = setting.traits.only_where) {
    const std::string name(where->setting), value = to_json(first).at(name);
    if (value != where->value)
      return "--" + name + " " + value + ", which " + std::string(where->otherwise);
  }
  std::string chosen = "--data " + first.data;
  if (setting.scope != Scope::data) chosen = "--attention " + attentions(runs);
  // Otherwise every part of a pattern says it.
  return chosen + (setting.only_for.empty() ? "" : " (it is for " + joined(setting.only_for) + ")");
}

}  // namespace

void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs) {
  for (const auto& [name, text] : line.settings) {
    const Setting* const setting = find_setting(training_settings(), name);
    // Of attentions a comparison takes a list, and each run has one.
    if (setting == nullptr || name == "attention") continue;
    const nlohmann::ordered_json value = setting->value(text);
    bool known = false, heeded = false;
    for (const TrainOptions& run : runs) {
      const nlohmann::ordered_json settings = to_json(run);
      known = known || settings.contains(name);
      heeded = heeded || (settings.contains(name) && settings[name] == value) ||
               (name == "warmup" && run.asked_warmup == value);
    }
    const bool left_out = setting->traits.quiet && value == setting->neutral;
    if (heeded || (left_out && !known)) continue;
    if (known) {
      std::string by = "--attention " + attentions(runs);
      if (line.setting("match")) by += " or --match";
      if (line.setting("sweep")) by += " or --sweep";
      throw changes_nothing(name, text, by);
    }
    throw UsageError("--" + name + " means nothing with " + reason(*setting, runs));
  }
}

}  // namespace headcount
