#include "train/training_flags.h"

#include <algorithm>

#include "data/text.h"

namespace headcount {

void RunOptions::add_to(Settings& settings) {
  settings.integer("threads", "0: all processors; results do not depend on it", threads, 0, 1024);
  settings.choice("progress", "on standard error", progress,
                  {{"auto", ProgressMode::automatic},
                   {"always", ProgressMode::always},
                   {"never", ProgressMode::never}});
}

void read_preset_and_config(const CommandLine& line, Settings& settings) {
  if (line.has("preset")) settings.read(preset(line.get("preset")).settings);
  if (!line.has("config")) return;
  const std::string path = line.get("config");
  try {
    settings.read(parse_json(read_file(path)));
  } catch (const Error& error) {
    throw DataError("--config " + path + ": " + error.what());
  }
}

void read_flags(const CommandLine& line, const Settings& settings) {
  for (const auto& [name, text] : line.settings) settings.find(name)->parse(text);
}

void refuse_foreign(const CommandLine& line, const std::vector<TrainOptions>& runs) {
  TrainOptions options = runs.front();
  const Settings all = options.settings();
  const auto means_something = [&](const std::string& name) {
    return std::ranges::any_of(
        runs, [&](const TrainOptions& run) { return to_json(run).contains(name); });
  };
  for (const auto& [name, text] : line.settings) {
    const Setting* setting = all.find(name);
    if (setting == nullptr || means_something(name)) continue;
    std::string chosen = "--data " + options.data;
    if (setting->group != "Data") {
      chosen = "--attention ";
      for (const TrainOptions& run : runs)
        chosen += (&run == &runs.front() ? "" : ",") + run.model.attention.kind;
    }
    throw UsageError("--" + name + " means nothing with " + chosen + " (it is for " +
                     setting->help.substr(0, setting->help.find(':')) + ")");
  }
}

}  // namespace headcount
