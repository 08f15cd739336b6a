#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "models/decoder.h"
#include "train/evaluation.h"
#include "train/optimizer.h"

namespace headcount {

/// Share of right answers from which on a run counts as having learned its text, unless the setting
/// `stop-at-answers` names another.
inline constexpr double kLearned = 0.95;

/// The settings of a training run, without those of its model, its text and its optimizer.
struct TrainSettings {
  double dropout = 0;
  std::string data;
  Index steps = 0;
  Index batch = 0;       ///< sequences per forward pass
  Index accumulate = 0;  ///< forward passes per step
  Index shards = 0;      ///< shards of a batch, which run in parallel; 0: see shard_count
  double learning_rate = 0;
  double least_learning_rate = 0;  ///< one step after the last
  Decay decay = Decay::cosine;
  Index warmup = 0;  ///< steps; a run that is shorter warms up for a tenth of its own steps
  double gradient_clip = 0;
  Precision precision = Precision::f32;  ///< of matrix products
  std::uint64_t seed = 0;
  Index eval_every = 0;        ///< 0: at the end only
  Index checkpoint_every = 0;  ///< 0: at the end only
  Index keep = 0;              ///< newest checkpoints to keep, besides the one with the least loss
  Index stop_after = 0;        ///< evaluations without a new best that end the run; 0: it goes on
  double stop_at_answers = 0;  ///< percent of right answers that end the run; 0: none
  double stop_at_loss = 0;     ///< validation loss below which the run ends; 0: none
  std::string init;            ///< checkpoint folder that the weights start from; empty: random

  /// Returns true if the run is evaluated after this step.
  bool evaluates_after(Index step) const {
    return step == steps || (eval_every > 0 && step % eval_every == 0);
  }
  /// Returns true if the run ends at the first evaluation that shows that it has learned.
  bool stops_when_learned() const { return stop_at_answers > 0 || stop_at_loss > 0; }
  /// Returns true if `evaluation` shows that the run has learned; false without such a mark.
  bool learned(const Evaluation& evaluation) const;

  Schedule schedule() const {
    return {learning_rate, least_learning_rate, warmup > steps ? steps / 10 : warmup, steps, decay};
  }
};

/// Everything that defines a training run, resolved: equal options give equal weights.
struct TrainOptions : TrainSettings {
  ModelPlan model;
  CorpusOptions corpus;
  OptimizerPlan optimizer;
};

/// Settings of a training run, including those of its model, its text and its optimizer.
const SettingList& training_settings();

/// Options of the corpus, from the settings of texts in `given`.
CorpusOptions corpus_options(const Given& given);

/// Training options from explicit settings and defaults. Throws ShapeError that names settings
/// which contradict each other.
TrainOptions resolve_training(const Given& given);

/// The settings in a run's record, brought up to date: renamed settings under today's names, and a
/// value for each setting that could not be chosen in the version that recorded it.
nlohmann::json recorded_settings(nlohmann::json config);

/// Note on a warm-up that takes all steps of the run or more; empty if it does not.
std::string warmup_note(const TrainOptions& options);

/// The settings that apply to `options`, with their values; resolving them gives `options` again.
nlohmann::ordered_json to_json(const TrainOptions& options);

/// The setting `precision`.
Setting precision_setting(const Traits& traits = {});
Precision read_precision(const Given& given);
/// Throws SettingError that names what is missing, and `remedy`, if `precision` would be slower
/// than f32 with this program on this processor.
void require_fast(Precision precision, std::string_view remedy);

/// Settings of how a KV cache rounds, for commands that decode: `cache-dtype` and others.
const SettingList& cache_settings();
/// What a list of types of caches may have besides: see CacheRounding::kEach.
inline constexpr std::string_view kEachHelp =
    "each:int2 lists int2 in all layers and then with one layer at a time as computed: what that "
    "gains is what the layer costs alone";
/// The `cache_settings` that have an effect on some types only.
inline constexpr const char* kOfSomeTypes[] = {"cache-group", "cache-levels", "cache-recent"};
/// Why one of them has none on the types of `rounding`, a clause about them; empty if it has one.
std::string_view why_idle(const CacheRounding& rounding, std::string_view name);
/// Rounding from the values of `cache_settings`. Throws SettingError for those without effect.
CacheRounding read_rounding(const Given& given);
/// Settings that choose how an attention decodes: one for each attention that has several forms,
/// with the name of the attention.
const SettingList& form_settings();
/// Decoding options from the values of `cache_settings` and `form_settings`.
DecodeOptions read_decode_options(const Given& given);

/// Default settings of model and optimizer for the built-in corpus of that name; none for a file.
/// Flags, presets and configurations override them.
nlohmann::json data_defaults(std::string_view data);

/// A named set of settings.
struct Preset {
  std::string name;
  nlohmann::json settings;
};
/// All presets, in the order of help.
const std::vector<Preset>& presets();
/// Preset of that name. Throws SettingError that lists the known names.
const Preset& preset(std::string_view name);
/// Names of all presets, separated by commas: "nanogpt-cpu, nanogpt-gpu, ...".
std::string preset_names();

}  // namespace headcount
