#pragma once

#include <memory>
#include <vector>

#include "models/language_model.h"

namespace headcount {

/// Times the decoding of one token, batch 1, after `context` others. Weights and cached numbers are
/// random: what they are does not change the time.
class DecodeTimer {
 public:
  /// `config` is resolved but for its context, which is set to hold the token.
  DecodeTimer(ModelConfig config, Index vocabulary, Index context,
              MlaDecoding mla = MlaDecoding::automatic);

  /// Decodes the token after `context` others; milliseconds.
  double decode();

  const LanguageModel& model() const { return *model_; }
  Index cache_bytes() const;  ///< allocated
  Index context() const { return context_; }

 private:
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Tape> tape_;
  std::vector<KvCache> caches_;
  Index context_;
};

/// Median milliseconds of each timer over `rounds` rounds in which they take turns, so that what
/// slows the machine down slows all of them down.
std::vector<double> median_milliseconds(std::vector<DecodeTimer>& timers, int rounds);

}  // namespace headcount
