#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace headcount {

/// Settings of "nanogpt-cpu", "nanogpt-gpu" or "toy": 2 layers, 2 heads, 32 wide, context 32, batch
/// 8; and `more`. Throws SettingError for another name.
TrainOptions bench_options(const std::string& size, const nlohmann::json& more = {});

/// A model that trains on 100,000 random characters, of 65 kinds.
class TrainingBench {
 public:
  static constexpr Index kVocabulary = 65;

  /// Takes two steps, after which no memory is taken any more.
  explicit TrainingBench(const TrainOptions& options);

  void step() { trainer_.step(); }
  const LanguageModel& model() const { return model_; }
  std::span<const std::int32_t> tokens() const { return tokens_; }
  Index shards() const { return shard_count(options_); }
  Index sequences_per_shard() const { return options_.batch / shards(); }

 private:
  TrainOptions options_;
  LanguageModel model_;
  std::vector<std::int32_t> tokens_;
  Trainer trainer_;
};

}  // namespace headcount
