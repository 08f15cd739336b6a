#include "train/compare/conversions.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/durable.h"
#include "models/conversion.h"
#include "train/run/place.h"

namespace headcount {

namespace {

namespace fs = std::filesystem;

constexpr Index kPercentTrained[] = {0, 1, 5, 20, 100};

// `percent` % of `number`, at least 1 unless `percent` is 0.
Index percent_of(Index number, Index percent) {
  const auto part = static_cast<Index>(
      std::lround(static_cast<double>(number) * static_cast<double>(percent) / 100));
  return std::max<Index>(percent > 0, part);
}

PlannedVariant from_scratch(const AttentionSpec& spec, const TrainOptions& options) {
  return {spec.text, {{spec.text, file_name_of(spec.text), "", options}}};
}

PlannedVariant trained_on(const AttentionSpec& spec, TrainOptions options, Index percent,
                          const fs::path& weights) {
  const std::string name =
      spec.text + (percent == 0 ? " converted" : " converted +" + std::to_string(percent) + " %");
  options.init = weights.string();
  options.warmup = std::min(options.warmup, percent_of(options.warmup, percent));
  options.steps = percent_of(options.steps, percent);
  return {name,
          {{name, file_name_of(spec.text) + "-converted-" + std::to_string(percent), "", options}},
          spec.text,
          percent};
}

}  // namespace

std::vector<PlannedVariant> plan_conversions(const Given& common,
                                             const std::vector<AttentionSpec>& specs,
                                             const LoadedRun& run, const fs::path& folder) {
  std::vector<PlannedVariant> variants;
  for (const AttentionSpec& spec : specs) {
    Given given = common;
    given.put("attention", spec.text);
    given.put_known(fitted(*run.model, given, {})->settings);
    const TrainOptions options = resolve_training(given);
    convert(*run.model, options.model,
            {});  // throws for impossible conversions before anything is trained
    variants.push_back(from_scratch(spec, options));
    for (const Index percent : kPercentTrained) {
      variants.push_back(
          trained_on(spec, options, percent, folder / "converted" / file_name_of(spec.text)));
    }
  }
  return variants;
}

void write_conversions(const std::vector<PlannedVariant>& variants, const LoadedRun& run) {
  std::set<std::string> written;
  for (const PlannedVariant& variant : variants) {
    const TrainOptions& options = variant.candidates.front().options;
    if (options.init.empty() || !written.insert(options.init).second) continue;
    const fs::path folder = options.init;
    std::error_code error;
    fs::create_directories(folder.parent_path(), error);
    if (error) throw WriteError(folder.parent_path(), error.value());
    require_checkpoint_alone(folder);
    erase(folder);
    save_checkpoint(folder, *convert(*run.model, options.model, {}).model, run.vocabulary);
  }
}

}  // namespace headcount
