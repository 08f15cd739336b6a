#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "models/config.h"
#include "train/optimizer.h"

namespace headcount {

/// Everything that defines a training run: `headcount train` with the same options trains the same
/// weights.
struct TrainOptions {
  ModelConfig model;

  std::string data = "tales";
  CorpusOptions corpus;

  Index steps = 1000;
  Index batch = 8;       ///< sequences per forward pass
  Index accumulate = 1;  ///< forward passes per step
  Index shards = 0;      ///< parts of a batch that go side by side; 0: by sizes, see shard_count
  double learning_rate = 1e-3;
  double least_learning_rate = -1;  ///< default a tenth of learning_rate
  Index warmup = 100;
  /// The warm-up that was asked for, where it was longer than the run and `resolve` shortened it;
  /// 0 elsewhere.
  Index asked_warmup = 0;
  AdamW optimizer;
  double gradient_clip = 1;
  std::uint64_t seed = 1;
  Index eval_every = 250;        ///< 0: at the end only
  Index checkpoint_every = 250;  ///< 0: at the end only
  Index keep = 2;                ///< newest checkpoints; the one with the least loss besides
  std::string init;              ///< checkpoint folder that the weights start from; empty: random

  /// Fills in defaults, and makes a warm-up that is longer than the run a tenth of it; throws
  /// ShapeError that names the flags which do not fit together, and for a model that no checkpoint
  /// could hold.
  void resolve();
  /// Settings bound to this object, the model's included.
  Settings settings();
  Settings settings() const;  ///< for reading

  Schedule schedule() const { return {learning_rate, least_learning_rate, warmup, steps}; }
};

/// Settings that records leave out where they are 0, which stands for what was there before them.
inline constexpr std::string_view kLeftOutAtZero[] = {"shards", "eval-characters"};
/// That the warm-up was shortened; empty where it was not.
std::string warmup_note(const TrainOptions& options);

/// Settings of `options` that mean something, with their values; `options` is resolved.
nlohmann::ordered_json to_json(const TrainOptions& options);

/// The settings of how a cache is stored, for commands that decode.
void add_cache_type(Settings& settings, CacheType& type);

/// For each attention that can decode in several ways, a setting of its name that chooses one.
void add_forms(Settings& settings, std::string& form);

/// Settings of model and optimiser with which the built-in corpus of that name is learned in
/// seconds or a minute; none for a file. Flags, presets and configurations come before them.
const nlohmann::json& data_defaults(std::string_view data);

/// A named set of settings.
struct Preset {
  std::string name, summary;
  nlohmann::json settings;
};
const std::vector<Preset>& presets();
/// Throws SettingError that lists the known names.
const Preset& preset(std::string_view name);
/// "nanogpt-cpu, shakespeare-rope, ...".
std::string preset_names();

}  // namespace headcount
