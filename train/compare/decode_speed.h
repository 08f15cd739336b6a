#pragma once

#include <memory>
#include <vector>

#include "models/decoder.h"

namespace headcount {

/// Times the decoding of the token that fills a context, from the cache that a Decoder has. Weights
/// and cached numbers are random: what they are does not change the time.
class DecodeTimer {
 public:
  /// `config` is resolved but for its context, which becomes `context`.
  DecodeTimer(const ModelPlan& model, Index vocabulary, Index context,
              const DecodeOptions& options = {});

  /// Decodes token number `context` of each sequence, which sees all before it that the window lets
  /// it see; milliseconds.
  double decode();

  const LanguageModel& model() const { return *model_; }
  Index cache_bytes() const;  ///< allocated
  Index context() const { return context_; }

 private:
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Tape> tape_;
  std::vector<LayerCache> caches_;
  Index context_;
  std::vector<std::int32_t> tokens_;  // one of each sequence
};

/// Median milliseconds of a token of each timer over `rounds` rounds in which they take turns, so
/// that what slows the machine down slows all of them down. A turn is 16 tokens, one after the
/// other as in sampling. The first 8 do not count: they find in the processor's caches what another
/// timer has read, and it takes some tokens until the last cache holds all that this one reads.
std::vector<double> median_milliseconds(std::vector<DecodeTimer>& timers, int rounds);

}  // namespace headcount
