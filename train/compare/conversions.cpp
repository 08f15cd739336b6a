#include "train/compare/conversions.h"

#include <algorithm>
#include <cmath>

#include "autograd/base/files.h"
#include "models/checkpoint/checkpoint.h"
#include "models/checkpoint/contents.h"
#include "models/checkpoint/durable.h"
#include "models/conversion.h"
#include "train/compare/result_files.h"
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
                                             const LoadedRun& run, const fs::path& folder,
                                             ConvertedModels& converted) {
  std::vector<PlannedVariant> variants;
  for (const AttentionSpec& spec : specs) {
    Given given = common;
    given.put("attention", spec.text);
    Given wanted(model_settings());
    wanted.put_known(given.values());
    std::unique_ptr<LanguageModel> model = convert(*run.model, wanted).model;
    given.put_known(model->plan()->settings);
    const TrainOptions options = resolve_training(given);
    const fs::path weights = folder / "converted" / file_name_of(spec.text);
    converted[weights] = std::move(model);
    variants.push_back(from_scratch(spec, options));
    for (const Index percent : kPercentTrained)
      variants.push_back(trained_on(spec, options, percent, weights));
  }
  return variants;
}

namespace {

// Gives `folder` the model. Throws OtherRunError if it has another one, unless `again`.
void write_converted(const fs::path& folder, const LanguageModel& model,
                     const Vocabulary& vocabulary, bool again) {
  require_checkpoint_alone(folder);
  const fs::path made = folder.parent_path() / ("." + folder.filename().string() + ".new");
  erase(made);
  save_checkpoint(made, model, vocabulary);
  const auto weights = [](const fs::path& of) { return sha256_of_file(of / kWeightsFile); };
  const bool there = is_there(folder / kWeightsFile);
  const bool same = there && weights(folder) == weights(made);
  if (same || (there && !again)) erase(made);
  if (same) return;
  if (there && !again) {
    throw OtherRunError(folder.string(), " holds a model that was converted from other weights");
  }
  erase(folder);
  std::error_code error;
  fs::rename(made, folder, error);
  if (error) throw WriteError(folder, error.value());
}

}  // namespace

void write_conversions(const ConvertedModels& converted, const Vocabulary& vocabulary, bool again) {
  for (const auto& [folder, model] : converted) {
    make_folder(folder.parent_path());
    write_converted(folder, *model, vocabulary, again);
  }
}

}  // namespace headcount
