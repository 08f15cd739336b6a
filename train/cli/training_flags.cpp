#include "train/cli/training_flags.h"

#include <utf8.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/text.h"

namespace headcount {

void RunOptions::add_to(Settings& settings) {
  settings.group("Run");
  settings.integer("threads", "0: all processors; results do not depend on it", threads, 0, 1024);
  settings.choice("progress", "on standard error", progress,
                  {{"auto", ProgressMode::automatic},
                   {"always", ProgressMode::always},
                   {"never", ProgressMode::never}});
  settings.on_off(
      "lock",
      "off: go on where the file system cannot lock folders; no other process may write "
      "the same one",
      lock);
}

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

// The text that flag or configuration give for a setting, or its default.
std::string given(const CommandLine& line, const nlohmann::json& config, const Settings& settings,
                  const std::string& name) {
  nlohmann::json value = settings.find(name)->value();
  if (config.is_object() && config.contains(name)) value = config[name];
  if (const std::string* text = line.setting(name)) value = *text;
  return value.is_string() ? value.get<std::string>() : "";
}

}  // namespace

void read_preset_and_config(const CommandLine& line, Settings& settings) {
  const std::string place = line.has("config") ? "--config " + line.get("config") + ": " : "";
  nlohmann::json config;
  try {
    config = read_config(line);
  } catch (const Error& error) {
    throw DataError(place + error.what());
  }
  if (line.has("preset")) {
    settings.read(preset(line.get("preset")).settings);
  } else if (given(line, config, settings, "init").empty()) {
    settings.read(data_defaults(given(line, config, settings, "data")));
  }
  try {
    settings.read(config);
  } catch (const Error& error) {
    throw DataError(place + error.what());
  }
}

namespace {

// "mha,gqa2".
std::string attentions(const std::vector<TrainOptions>& runs) {
  std::string text = runs.front().model.attention_text();
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const std::string next = runs[i].model.attention_text();
    if (next != runs[i - 1].model.attention_text()) text += "," + next;
  }
  return text;
}

// Why `setting` means nothing to any of `runs`.
std::string reason(const Setting& setting, const std::vector<TrainOptions>& runs) {
  const TrainOptions& first = runs.front();
  if (setting.name == "rope-theta" || setting.name == "rope-layout") {
    return "--positions " + first.settings().find("positions")->value().get<std::string>() +
           ", which rotates nothing";
  }
  std::string chosen = "--data " + first.data;
  if (setting.group != "Data") chosen = "--attention " + attentions(runs);
  // Otherwise every part of a pattern says it.
  return chosen + (setting.only_for.empty() ? "" : " (it is for " + joined(setting.only_for) + ")");
}

}  // namespace

void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs) {
  TrainOptions given = runs.front();
  const Settings all = given.settings();
  for (const auto& [name, text] : line.settings) {
    const Setting* setting = all.find(name);
    // Of attentions a comparison takes a list, and each run has one.
    if (setting == nullptr || name == "attention") continue;
    setting->parse(text);
    const nlohmann::ordered_json value = setting->value();
    bool known = false, heeded = false;
    for (const TrainOptions& run : runs) {
      const nlohmann::ordered_json settings = to_json(run);
      known = known || settings.contains(name);
      heeded = heeded || (settings.contains(name) && settings[name] == value) ||
               (name == "warmup" && run.asked_warmup == given.warmup);
    }
    const bool at_zero =
        value == 0 && std::ranges::find(kLeftOutAtZero, name) != std::end(kLeftOutAtZero);
    if (heeded || (at_zero && !known)) continue;
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
